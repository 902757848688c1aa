/* What tools ask of NVIDIA's management library: how much memory there is. They are told of the share. */
#define _GNU_SOURCE
#include "weft.h"

#include <dlfcn.h>
#include <string.h>

typedef int nvmlReturn;
typedef void *nvmlDevice;
typedef struct { unsigned long long total, free, used; } nvmlMemory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2;
enum { NVML_SUCCESS = 0, NVML_UNINITIALIZED = 1 };

static nvmlReturn (*real)(nvmlDevice, nvmlMemory *);
static nvmlReturn (*real_v2)(nvmlDevice, nvmlMemory_v2 *);

VISIBLE nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice device, nvmlMemory *told);
VISIBLE nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, nvmlMemory_v2 *told);

static void find(int load)
{
    void *library = real ? NULL : dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!library)
        return;
    real_v2 = (nvmlReturn(*)(nvmlDevice, nvmlMemory_v2 *))weft_dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    real = (nvmlReturn(*)(nvmlDevice, nvmlMemory *))weft_dlsym(library, "nvmlDeviceGetMemoryInfo");
}

void *weft_nvml(void *found)
{
    find(0);
    if (found && found == (void *)real)
        return (void *)nvmlDeviceGetMemoryInfo;
    return found && found == (void *)real_v2 ? (void *)nvmlDeviceGetMemoryInfo_v2 : found;
}

/* Whether there is a share; what it has, and what it has left of what the device has left. */
static int of_share(unsigned long long *total, unsigned long long *left, unsigned long long *used)
{
    uint64_t has, limit;
    if (!weft_is_wanted() || !weft_page_open())
        return 0;
    weft_usage(&has, &limit);
    *total = limit < *total ? limit : *total;
    *used = has < *total ? has : *total;
    *left = *total - *used < *left ? *total - *used : *left;
    return 1;
}

VISIBLE nvmlReturn nvmlDeviceGetMemoryInfo(nvmlDevice device, nvmlMemory *told)
{
    find(1);
    if (!real)
        return NVML_UNINITIALIZED;
    nvmlReturn result = real(device, told);
    if (result == NVML_SUCCESS)
        of_share(&told->total, &told->free, &told->used);
    return result;
}

VISIBLE nvmlReturn nvmlDeviceGetMemoryInfo_v2(nvmlDevice device, nvmlMemory_v2 *told)
{
    find(1);
    if (!real_v2)
        return NVML_UNINITIALIZED;
    nvmlReturn result = real_v2(device, told);
    if (result == NVML_SUCCESS && of_share(&told->total, &told->free, &told->used))
        told->reserved = 0;
    return result;
}
