/* Allocations: what fits into the share goes to the driver; what does not gets the driver's own answer for a full
 * GPU. */
#define _GNU_SOURCE
#include "weft.h"

#include <stdlib.h>
#include <string.h>

/* What each allocation of this process takes, by its address or handle. */
struct known {
    uint64_t key, size; /* size 0: free; key kept, so that a search goes on past it */
    CUcontext context;
};
static struct known *table;
static size_t room, taken; /* room is a power of two; taken: slots that have ever been used */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t place(uint64_t key) { return (size_t)((key >> 4) * 0x9E3779B97F4A7C15ull >> 20) & (room - 1); }

static void put(uint64_t key, uint64_t size, CUcontext context)
{
    size_t i = place(key);
    while (table[i].size && table[i].key != key)
        i = (i + 1) & (room - 1);
    taken += !table[i].key;
    table[i] = (struct known){key, size, context};
}

static int grow(void)
{
    struct known *old = table;
    size_t before = room, live = 0;
    for (size_t i = 0; i < before; i++)
        live += old[i].size != 0;
    size_t wanted = before ? before : 1024;
    while (live * 4 > wanted)
        wanted *= 2;
    struct known *made = calloc(wanted, sizeof *made);
    if (!made)
        return 0;
    table = made, room = wanted, taken = 0;
    for (size_t i = 0; i < before; i++)
        if (old[i].size)
            put(old[i].key, old[i].size, old[i].context);
    free(old);
    return 1;
}

static void remember(uint64_t key, uint64_t size)
{
    CUcontext context = NULL;
    if (weft_real.cuCtxGetCurrent)
        weft_real.cuCtxGetCurrent(&context);
    pthread_mutex_lock(&mutex);
    if (taken * 2 < room || grow())
        put(key, size, context);
    pthread_mutex_unlock(&mutex);
}

/* What it takes, forgotten before the driver frees it: its address may be another allocation's at once. */
static uint64_t forget(uint64_t key)
{
    uint64_t size = 0;
    pthread_mutex_lock(&mutex);
    for (size_t i = room ? place(key) : 0, left = room; left && table[i].key; i = (i + 1) & (room - 1), left--)
        if (table[i].key == key && table[i].size) {
            size = table[i].size;
            table[i].size = 0;
            break;
        }
    pthread_mutex_unlock(&mutex);
    return size;
}

/* A context takes its memory with it. NULL: all of them. */
static void forget_context(CUcontext context)
{
    uint64_t size = 0;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < room; i++)
        if (table[i].size && (!context || table[i].context == context)) {
            size += table[i].size;
            table[i].size = 0;
        }
    pthread_mutex_unlock(&mutex);
    weft_unreserve(size);
}

static int counts(void) { return weft_find() && weft_is_wanted(); }

/* Reserve, let the driver allocate, and take it back if it did not. `key` is read after the call. */
#define ALLOCATE(name, size, key, ...) \
    if (!weft_find() || !weft_real.name) \
        return CUDA_NOT_INITIALIZED; \
    if (!weft_is_wanted()) \
        return weft_real.name(__VA_ARGS__); \
    uint64_t asked = (size); \
    weft_gate_arrive(); \
    if (!weft_reserve(asked)) \
        return CUDA_OUT_OF_MEMORY; \
    CUresult result = weft_real.name(__VA_ARGS__); \
    if (result == CUDA_SUCCESS) \
        remember((uint64_t)(uintptr_t)(key), asked); \
    else \
        weft_unreserve(asked); \
    return result;

/* It counts as taken until the driver has freed it. */
#define FREE(name, key, ...) \
    if (!weft_find() || !weft_real.name) \
        return CUDA_NOT_INITIALIZED; \
    uint64_t had = weft_is_wanted() ? forget((uint64_t)(uintptr_t)(key)) : 0; \
    CUresult result = weft_real.name(__VA_ARGS__); \
    if (result == CUDA_SUCCESS) \
        weft_unreserve(had); \
    else if (had) \
        remember((uint64_t)(uintptr_t)(key), had); \
    return result;

VISIBLE CUresult cuMemAlloc_v2(CUdeviceptr *made, size_t size) { ALLOCATE(cuMemAlloc_v2, size, *made, made, size) }

VISIBLE CUresult cuMemAllocManaged(CUdeviceptr *made, size_t size, unsigned flags)
{
    ALLOCATE(cuMemAllocManaged, size, *made, made, size, flags)
}

VISIBLE CUresult cuMemAllocPitch_v2(CUdeviceptr *made, size_t *pitch, size_t width, size_t height, unsigned element)
{
    /* Rows are padded to 512 bytes by the drivers that there are. */
    ALLOCATE(cuMemAllocPitch_v2, (width + 511) / 512 * 512 * height, *made, made, pitch, width, height, element)
}

VISIBLE CUresult cuMemAllocAsync(CUdeviceptr *made, size_t size, CUstream stream)
{
    ALLOCATE(cuMemAllocAsync, size, *made, made, size, stream)
}

VISIBLE CUresult cuMemAllocAsync_ptsz(CUdeviceptr *made, size_t size, CUstream stream)
{
    ALLOCATE(cuMemAllocAsync_ptsz, size, *made, made, size, stream)
}

VISIBLE CUresult cuMemAllocFromPoolAsync(CUdeviceptr *made, size_t size, CUpool pool, CUstream stream)
{
    ALLOCATE(cuMemAllocFromPoolAsync, size, *made, made, size, pool, stream)
}

VISIBLE CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *made, size_t size, CUpool pool, CUstream stream)
{
    ALLOCATE(cuMemAllocFromPoolAsync_ptsz, size, *made, made, size, pool, stream)
}

VISIBLE CUresult cuMemFree_v2(CUdeviceptr pointer) { FREE(cuMemFree_v2, pointer, pointer) }
VISIBLE CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) { FREE(cuMemFreeAsync, pointer, pointer, stream) }
VISIBLE CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    FREE(cuMemFreeAsync_ptsz, pointer, pointer, stream)
}

VISIBLE CUresult cuMemCreate(CUdeviceptr *made, size_t size, const CUmemProperties *how, unsigned long long flags)
{
    if (how && how->place != CU_PLACE_DEVICE) {
        if (!weft_find() || !weft_real.cuMemCreate)
            return CUDA_NOT_INITIALIZED;
        return weft_real.cuMemCreate(made, size, how, flags);
    }
    ALLOCATE(cuMemCreate, size, *made, made, size, how, flags)
}

VISIBLE CUresult cuMemRelease(CUdeviceptr handle) { FREE(cuMemRelease, handle, handle) }

static uint64_t element_bytes(int format)
{
    if (format == 1 || format == 8)
        return 1;
    return format == 2 || format == 9 || format == 16 ? 2 : 4;
}

static uint64_t array_bytes(const CUarrayShape3D *shape)
{
    uint64_t rows = shape->height ? shape->height : 1, planes = shape->depth ? shape->depth : 1;
    return shape->width * rows * planes * shape->channels * element_bytes(shape->format);
}

VISIBLE CUresult cuArrayCreate_v2(CUarray *made, const CUarrayShape *shape)
{
    CUarrayShape3D same = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
    ALLOCATE(cuArrayCreate_v2, array_bytes(&same), *made, made, shape)
}

VISIBLE CUresult cuArray3DCreate_v2(CUarray *made, const CUarrayShape3D *shape)
{
    ALLOCATE(cuArray3DCreate_v2, array_bytes(shape), *made, made, shape)
}

VISIBLE CUresult cuMipmappedArrayCreate(CUmipmap *made, const CUarrayShape3D *shape, unsigned levels)
{
    /* Each level has a quarter of the one before: a third more than the first, whatever their number. */
    ALLOCATE(cuMipmappedArrayCreate, array_bytes(shape) * (levels > 1 ? 4 : 3) / 3, *made, made, shape, levels)
}

VISIBLE CUresult cuArrayDestroy(CUarray array) { FREE(cuArrayDestroy, array, array) }
VISIBLE CUresult cuMipmappedArrayDestroy(CUmipmap array) { FREE(cuMipmappedArrayDestroy, array, array) }

VISIBLE CUresult cuCtxDestroy_v2(CUcontext context)
{
    if (!weft_find() || !weft_real.cuCtxDestroy_v2)
        return CUDA_NOT_INITIALIZED;
    weft_on_destroyed(NULL);
    CUresult result = weft_real.cuCtxDestroy_v2(context);
    if (result == CUDA_SUCCESS && weft_is_wanted())
        forget_context(context);
    return result;
}

VISIBLE CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    if (!weft_find() || !weft_real.cuDevicePrimaryCtxReset_v2)
        return CUDA_NOT_INITIALIZED;
    weft_on_destroyed(NULL);
    CUresult result = weft_real.cuDevicePrimaryCtxReset_v2(device);
    if (result == CUDA_SUCCESS && weft_is_wanted())
        forget_context(NULL);
    return result;
}

VISIBLE CUresult cuMemGetInfo_v2(size_t *left, size_t *total)
{
    if (!weft_find() || !weft_real.cuMemGetInfo_v2)
        return CUDA_NOT_INITIALIZED;
    CUresult result = weft_real.cuMemGetInfo_v2(left, total);
    uint64_t used, limit;
    if (result != CUDA_SUCCESS || !counts() || !weft_page_open())
        return result;
    weft_usage(&used, &limit);
    uint64_t rest = used < limit ? limit - used : 0;
    if (rest < *left)
        *left = rest;
    if (limit < *total)
        *total = limit;
    return result;
}

VISIBLE CUresult cuDeviceTotalMem_v2(size_t *total, CUdevice device)
{
    if (!weft_find() || !weft_real.cuDeviceTotalMem_v2)
        return CUDA_NOT_INITIALIZED;
    CUresult result = weft_real.cuDeviceTotalMem_v2(total, device);
    uint64_t used, limit;
    if (result != CUDA_SUCCESS || !counts() || !weft_page_open())
        return result;
    weft_usage(&used, &limit);
    if (limit < *total)
        *total = limit;
    return result;
}
