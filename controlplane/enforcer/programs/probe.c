/* Whether the library is in this process, as it will be in those of the container. */
#define _GNU_SOURCE
#include <dlfcn.h>

int main(void) { return dlsym(RTLD_DEFAULT, "weft_gpu_version") ? 0 : 1; }
