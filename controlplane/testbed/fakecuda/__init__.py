"""A GPU that is only simulated, with a driver that programs load in place of NVIDIA's: driver/device.h says how."""
