"""GPUs that several clients share: how their time is divided, by our rule and by those that it is compared with."""
