/* A driver for programs under test: as much of the CUDA driver's interface as they and our library call.
 *
 * A kernel's name says how long one block of its grid takes: "busy_1000" is 1000 us. Memory is counted, not kept.
 * While a stream is captured, calls that wait or ask break the capture, as a real driver has it. */
#define _GNU_SOURCE
#include "device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_HANDLE = 400, NOT_FOUND = 500,
    NOT_READY = 600, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901,
};

struct stream { int is_capturing; uint64_t captured; };
struct event { int number; uint64_t entry; int is_recorded; };
struct function { uint64_t ns; };
struct graph { uint64_t ns; };
struct block { size_t size; };
struct context { int unused; };
struct one_launch { struct function *function; unsigned grid[3]; };
struct config { unsigned grid[3], block[3], shared; struct stream *stream; void *attributes; unsigned count; };

static struct stream default_stream, thread_stream;
static struct context primary;
static __thread struct context *current;
static atomic_int captures, is_broken, next_event;

#define NEED if (!fake_joined()) return NOT_INITIALIZED
#define ASKS if (captures) return breaks_capture()

static CUresult breaks_capture(void)
{
    is_broken = 1;
    return CAPTURE_UNSUPPORTED;
}

static struct stream *resolve(struct stream *stream)
{
    if (stream == (struct stream *)2)
        return &thread_stream;
    return stream > (struct stream *)2 ? stream : &default_stream;
}

CUresult cuInit(unsigned flags) { return flags || fake_join() ? 100 : SUCCESS; }
CUresult cuDriverGetVersion(int *version) { return *version = 12080, SUCCESS; }
CUresult cuDeviceGetCount(int *count) { NEED; return *count = 1, SUCCESS; }
CUresult cuDeviceGet(int *device, int number) { NEED; return *device = 0, number ? 101 : SUCCESS; }
CUresult cuDeviceGetName(char *name, int length, int device) { (void)device; strncpy(name, "Fake GPU", length); return SUCCESS; }
CUresult cuDeviceGetAttribute(int *value, int what, int device) { (void)what, (void)device; return *value = 8, SUCCESS; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    uint64_t free, total;
    (void)device;
    NEED;
    fake_memory(&free, &total);
    return *bytes = total, SUCCESS;
}

CUresult cuCtxCreate_v2(struct context **made, unsigned flags, int device)
{
    (void)flags, (void)device;
    NEED;
    return current = *made = calloc(1, sizeof **made), SUCCESS;
}
CUresult cuCtxDestroy_v2(struct context *context)
{
    if (context != &primary)
        free(context);
    return current = NULL, SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(struct context **made, int device) { (void)device; NEED; return *made = &primary, SUCCESS; }
CUresult cuDevicePrimaryCtxReset_v2(int device) { (void)device; return SUCCESS; }
CUresult cuCtxSetCurrent(struct context *context) { return current = context, SUCCESS; }
CUresult cuCtxGetCurrent(struct context **context) { return *context = current, SUCCESS; }
CUresult cuCtxPushCurrent_v2(struct context *context) { return current = context, SUCCESS; }
CUresult cuCtxPopCurrent_v2(struct context **context) { return *context = current, current = NULL, SUCCESS; }
CUresult cuCtxGetDevice(int *device) { return *device = 0, SUCCESS; }

static void wait_for_all(void)
{
    uint64_t pushed = fake_pushed();
    if (pushed)
        fake_wait(pushed - 1);
}
CUresult cuCtxSynchronize(void) { NEED; ASKS; return wait_for_all(), SUCCESS; }

CUresult cuModuleLoadData(void **module, const void *image) { (void)image; return *module = &primary, SUCCESS; }
CUresult cuModuleUnload(void *module) { (void)module; return SUCCESS; }
CUresult cuModuleGetFunction(struct function **made, void *module, const char *name)
{
    (void)module;
    if (strncmp(name, "busy_", 5))
        return NOT_FOUND;
    *made = calloc(1, sizeof **made);
    (*made)->ns = strtoull(name + 5, NULL, 10) * 1000;
    return SUCCESS;
}

static CUresult run(uint64_t ns, struct stream *stream)
{
    struct stream *where = resolve(stream);
    NEED;
    if (where->is_capturing)
        where->captured += ns;
    else
        fake_push(ns, -1);
    return SUCCESS;
}
CUresult cuLaunchKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, struct stream *stream, void **arguments, void **extra)
{
    (void)bx, (void)by, (void)bz, (void)shared, (void)arguments, (void)extra;
    return run(function->ns * x * y * z, stream);
}
CUresult cuLaunchKernel_ptsz(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, struct stream *stream, void **arguments, void **extra)
{
    (void)bx, (void)by, (void)bz, (void)shared, (void)arguments, (void)extra;
    return run(function->ns * x * y * z, stream ? stream : &thread_stream);
}
CUresult cuLaunchCooperativeKernel(struct function *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, struct stream *stream, void **arguments)
{
    (void)bx, (void)by, (void)bz, (void)shared, (void)arguments;
    return run(function->ns * x * y * z, stream);
}
CUresult cuLaunchKernelEx(const struct config *how, struct function *function, void **arguments, void **extra)
{
    (void)arguments, (void)extra;
    return run(function->ns * how->grid[0] * how->grid[1] * how->grid[2], how->stream);
}

CUresult cuStreamCreate(struct stream **made, unsigned flags)
{
    (void)flags;
    NEED;
    return *made = calloc(1, sizeof **made), SUCCESS;
}
CUresult cuStreamDestroy_v2(struct stream *stream) { return free(stream), SUCCESS; }
CUresult cuStreamSynchronize(struct stream *stream) { (void)stream; NEED; ASKS; return wait_for_all(), SUCCESS; }
CUresult cuStreamSynchronize_ptsz(struct stream *stream) { return cuStreamSynchronize(stream); }
CUresult cuStreamBeginCapture_v2(struct stream *stream, int mode)
{
    (void)mode;
    struct stream *where = resolve(stream);
    is_broken = 0;
    captures++;
    return where->is_capturing = 1, where->captured = 0, SUCCESS;
}
CUresult cuStreamEndCapture(struct stream *stream, struct graph **made)
{
    struct stream *where = resolve(stream);
    where->is_capturing = 0;
    captures--;
    if (is_broken)
        return CAPTURE_INVALIDATED;
    *made = calloc(1, sizeof **made);
    return (*made)->ns = where->captured, SUCCESS;
}
CUresult cuStreamIsCapturing(struct stream *stream, int *how) { return *how = resolve(stream)->is_capturing, SUCCESS; }
CUresult cuGraphInstantiateWithFlags(struct graph **made, struct graph *graph, unsigned long long flags)
{
    (void)flags;
    return *made = graph, SUCCESS;
}
CUresult cuGraphLaunch(struct graph *graph, struct stream *stream) { return run(graph->ns, stream); }
CUresult cuGraphLaunch_ptsz(struct graph *graph, struct stream *stream) { return run(graph->ns, stream); }

CUresult cuEventCreate(struct event **made, unsigned flags)
{
    (void)flags;
    NEED;
    *made = calloc(1, sizeof **made);
    return (*made)->number = next_event++ % FAKE_EVENTS, SUCCESS;
}
CUresult cuEventDestroy_v2(struct event *event) { return free(event), SUCCESS; }
CUresult cuEventRecord(struct event *event, struct stream *stream)
{
    (void)stream;
    NEED;
    ASKS;
    event->entry = fake_push(0, event->number);
    return event->is_recorded = 1, SUCCESS;
}
CUresult cuEventRecord_ptsz(struct event *event, struct stream *stream) { return cuEventRecord(event, stream); }
CUresult cuEventQuery(struct event *event)
{
    ASKS;
    return !event->is_recorded || fake_is_done(event->entry) ? SUCCESS : NOT_READY;
}
CUresult cuEventSynchronize(struct event *event)
{
    ASKS;
    if (event->is_recorded)
        fake_wait(event->entry);
    return SUCCESS;
}
CUresult cuEventElapsedTime(float *ms, struct event *start, struct event *end)
{
    if (!start->is_recorded || !end->is_recorded)
        return INVALID_HANDLE;
    if (!fake_is_done(start->entry) || !fake_is_done(end->entry))
        return NOT_READY;
    *ms = (float)((double)(fake_event_at(end->number) - fake_event_at(start->number)) / 1e6);
    return SUCCESS;
}

static CUresult allocate(CUdeviceptr *pointer, size_t size)
{
    NEED;
    if (!size)
        return INVALID_VALUE;
    if (fake_take(size))
        return OUT_OF_MEMORY;
    struct block *block = malloc(sizeof *block);
    block->size = size;
    return *pointer = (CUdeviceptr)(uintptr_t)block, SUCCESS;
}
static CUresult release(CUdeviceptr pointer)
{
    struct block *block = (struct block *)(uintptr_t)pointer;
    if (!block)
        return SUCCESS;
    fake_give(block->size);
    return free(block), SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) { return allocate(pointer, size); }
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags) { (void)flags; return allocate(pointer, size); }
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    (void)element;
    *pitch = (width + 511) / 512 * 512;
    return allocate(pointer, *pitch * height);
}
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, struct stream *stream) { (void)stream; return allocate(pointer, size); }
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t size, struct stream *stream) { return cuMemAllocAsync(pointer, size, stream); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, void *pool, struct stream *stream)
{
    (void)pool, (void)stream;
    return allocate(pointer, size);
}
CUresult cuMemFree_v2(CUdeviceptr pointer) { return release(pointer); }
CUresult cuMemFreeAsync(CUdeviceptr pointer, struct stream *stream) { (void)stream; return release(pointer); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, struct stream *stream) { (void)stream; return release(pointer); }
CUresult cuMemCreate(CUdeviceptr *handle, size_t size, const int *properties, unsigned long long flags)
{
    (void)flags;
    if (properties[2] != 1) /* a place that is not a device costs no memory of ours */
        return *handle = 0, SUCCESS;
    return allocate(handle, size);
}
CUresult cuMemRelease(CUdeviceptr handle) { return release(handle); }
CUresult cuArrayCreate_v2(CUdeviceptr *made, const size_t *shape)
{
    return allocate(made, shape[0] * (shape[1] ? shape[1] : 1) * 4 * ((const unsigned *)shape)[5]);
}
CUresult cuArrayDestroy(CUdeviceptr array) { return release(array); }
CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    uint64_t left, all;
    NEED;
    fake_memory(&left, &all);
    return *free = left, *total = all, SUCCESS;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { (void)to, (void)from, (void)size; return cuCtxSynchronize(); }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { (void)to, (void)from, (void)size; return cuCtxSynchronize(); }

/* Variants that libraries fetch, and few programs call. */
#define SAME(name, parameters, other, ...) CUresult name parameters { return other(__VA_ARGS__); }
#define GRID unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared
SAME(cuLaunchCooperativeKernel_ptsz, (struct function *function, GRID, struct stream *stream, void **arguments),
     cuLaunchCooperativeKernel, function, x, y, z, bx, by, bz, shared, stream, arguments)
SAME(cuLaunchKernelEx_ptsz, (const struct config *how, struct function *function, void **arguments, void **extra),
     cuLaunchKernelEx, how, function, arguments, extra)
SAME(cuLaunch, (struct function *function), run, function->ns, NULL)
SAME(cuLaunchGrid, (struct function *function, int x, int y), run, function->ns * x * y, NULL)
SAME(cuLaunchGridAsync, (struct function *function, int x, int y, struct stream *stream), run, function->ns * x * y, stream)
SAME(cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *pointer, size_t size, void *pool, struct stream *stream),
     cuMemAllocFromPoolAsync, pointer, size, pool, stream)
SAME(cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t size), cuMemcpyHtoD_v2, to, from, size)
SAME(cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t size), cuMemcpyDtoH_v2, to, from, size)
SAME(cuStreamBeginCapture, (struct stream *stream), cuStreamBeginCapture_v2, stream, 0)
SAME(cuStreamBeginCapture_ptsz, (struct stream *stream), cuStreamBeginCapture_v2, stream, 0)
SAME(cuStreamBeginCapture_v2_ptsz, (struct stream *stream, int mode), cuStreamBeginCapture_v2, stream, mode)
SAME(cuStreamEndCapture_ptsz, (struct stream *stream, struct graph **made), cuStreamEndCapture, stream, made)
SAME(cuMipmappedArrayDestroy, (CUdeviceptr array), release, array)
CUresult cuCtxSynchronize_v2(struct context *context) { return context ? cuCtxSynchronize() : INVALID_VALUE; }
CUresult cuLaunchCooperativeKernelMultiDevice(struct one_launch *list, unsigned count, unsigned flags)
{
    return count == 1 && !flags ? run(list->function->ns * list->grid[0], NULL) : INVALID_VALUE;
}
CUresult cuStreamBeginCaptureToGraph(struct stream *stream, void *graph, const void *on, const void *edges, size_t count,
                                     int mode)
{
    (void)graph, (void)on, (void)edges, (void)count;
    return cuStreamBeginCapture_v2(stream, mode);
}
CUresult cuStreamBeginCaptureToGraph_ptsz(struct stream *stream, void *graph, const void *on, const void *edges,
                                          size_t count, int mode)
{
    return cuStreamBeginCaptureToGraph(stream, graph, on, edges, count, mode);
}
CUresult cuArray3DCreate_v2(CUdeviceptr *made, const size_t *shape)
{
    size_t rows = shape[1] ? shape[1] : 1, planes = shape[2] ? shape[2] : 1;
    return allocate(made, shape[0] * rows * planes * 4 * ((const unsigned *)shape)[7]);
}
CUresult cuMipmappedArrayCreate(CUdeviceptr *made, const size_t *shape, unsigned levels)
{
    return levels ? cuArray3DCreate_v2(made, shape) : INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS";
    return SUCCESS;
}
CUresult cuGetErrorString(CUresult error, const char **text) { return cuGetErrorName(error, text); }

CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags);
CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status);

/* Base name, first version of the interface that has it so, whether it is of the per-thread default stream,
 * function. */
static const struct { const char *name; int version, is_of_thread; void *function; } ADDRESSES[] = {
#define V(name, version, function) {#name, version, 0, (void *)function},
#define T(name, version, function) {#name, version, 1, (void *)function},
    V(cuInit, 2000, cuInit) V(cuDriverGetVersion, 2020, cuDriverGetVersion) V(cuDeviceGetCount, 2000, cuDeviceGetCount)
    V(cuDeviceGet, 2000, cuDeviceGet) V(cuDeviceGetName, 2000, cuDeviceGetName)
    V(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute) V(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)
    V(cuCtxCreate, 3020, cuCtxCreate_v2) V(cuCtxDestroy, 4000, cuCtxDestroy_v2) V(cuCtxSetCurrent, 4000, cuCtxSetCurrent)
    V(cuCtxGetCurrent, 4000, cuCtxGetCurrent) V(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2)
    V(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2) V(cuCtxGetDevice, 2000, cuCtxGetDevice)
    V(cuCtxSynchronize, 2000, cuCtxSynchronize) V(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)
    V(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) V(cuModuleLoadData, 2000, cuModuleLoadData)
    V(cuModuleUnload, 2000, cuModuleUnload) V(cuModuleGetFunction, 2000, cuModuleGetFunction)
    V(cuLaunchKernel, 4000, cuLaunchKernel) T(cuLaunchKernel, 7000, cuLaunchKernel_ptsz)
    V(cuLaunchKernelEx, 11060, cuLaunchKernelEx) V(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel)
    V(cuStreamCreate, 2000, cuStreamCreate) V(cuStreamDestroy, 4000, cuStreamDestroy_v2)
    V(cuStreamSynchronize, 2000, cuStreamSynchronize) T(cuStreamSynchronize, 7000, cuStreamSynchronize_ptsz)
    V(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2) V(cuStreamEndCapture, 10000, cuStreamEndCapture)
    V(cuStreamIsCapturing, 10000, cuStreamIsCapturing) V(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags)
    V(cuGraphLaunch, 10000, cuGraphLaunch) T(cuGraphLaunch, 10000, cuGraphLaunch_ptsz)
    V(cuEventCreate, 2000, cuEventCreate) V(cuEventDestroy, 4000, cuEventDestroy_v2)
    V(cuEventRecord, 2000, cuEventRecord) T(cuEventRecord, 7000, cuEventRecord_ptsz) V(cuEventQuery, 2000, cuEventQuery)
    V(cuEventSynchronize, 2000, cuEventSynchronize) V(cuEventElapsedTime, 2000, cuEventElapsedTime)
    V(cuMemAlloc, 3020, cuMemAlloc_v2) V(cuMemAllocManaged, 6000, cuMemAllocManaged)
    V(cuMemAllocPitch, 3020, cuMemAllocPitch_v2) V(cuMemAllocAsync, 11020, cuMemAllocAsync)
    T(cuMemAllocAsync, 11020, cuMemAllocAsync_ptsz) V(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync)
    V(cuMemFree, 3020, cuMemFree_v2) V(cuMemFreeAsync, 11020, cuMemFreeAsync) T(cuMemFreeAsync, 11020, cuMemFreeAsync_ptsz)
    V(cuMemCreate, 10020, cuMemCreate) V(cuMemRelease, 10020, cuMemRelease) V(cuArrayCreate, 3020, cuArrayCreate_v2)
    V(cuArrayDestroy, 2000, cuArrayDestroy) V(cuMemGetInfo, 3020, cuMemGetInfo_v2)
    V(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2) V(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2)
    T(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel_ptsz) T(cuLaunchKernelEx, 11060, cuLaunchKernelEx_ptsz)
    V(cuLaunchCooperativeKernelMultiDevice, 9000, cuLaunchCooperativeKernelMultiDevice) V(cuLaunch, 2000, cuLaunch)
    V(cuLaunchGrid, 2000, cuLaunchGrid) V(cuLaunchGridAsync, 2000, cuLaunchGridAsync)
    T(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync_ptsz) T(cuMemcpyHtoD, 7000, cuMemcpyHtoD_v2_ptds)
    T(cuMemcpyDtoH, 7000, cuMemcpyDtoH_v2_ptds) V(cuStreamBeginCapture, 10000, cuStreamBeginCapture)
    T(cuStreamBeginCapture, 10000, cuStreamBeginCapture_ptsz) T(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2_ptsz)
    T(cuStreamEndCapture, 10000, cuStreamEndCapture_ptsz) V(cuCtxSynchronize, 13000, cuCtxSynchronize_v2)
    V(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph)
    T(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph_ptsz)
    V(cuArray3DCreate, 3020, cuArray3DCreate_v2) V(cuMipmappedArrayCreate, 5000, cuMipmappedArrayCreate)
    V(cuMipmappedArrayDestroy, 5000, cuMipmappedArrayDestroy)
    V(cuGetErrorName, 6000, cuGetErrorName) V(cuGetErrorString, 6000, cuGetErrorString)
    V(cuGetProcAddress, 11030, cuGetProcAddress) V(cuGetProcAddress, 12000, cuGetProcAddress_v2)
#undef V
#undef T
};

/* With FAKECUDA_OTHER_ADDRESSES two functions have one address for dlsym and another one here. */
static CUresult launch_too(struct function *function, GRID, struct stream *stream, void **arguments, void **extra)
{
    return cuLaunchKernel(function, x, y, z, bx, by, bz, shared, stream, arguments, extra);
}
static CUresult allocate_too(CUdeviceptr *pointer, size_t size) { return allocate(pointer, size); }
static void *other_address(void *function)
{
    if (function == (void *)cuLaunchKernel)
        return (void *)launch_too;
    return function == (void *)cuMemAlloc_v2 ? (void *)allocate_too : function;
}

static CUresult not_supported(void) { return NOT_SUPPORTED; }

/* FAKECUDA_NAMES names a file: each name that is asked for is written there, and what this driver lacks is found
 * too, as a whole driver would have it, but does nothing. So libraries that want hundreds of functions can be seen
 * fetching them. */
static CUresult answer_all(const char *name, void **found, int version, uint64_t flags)
{
    FILE *names = fopen(getenv("FAKECUDA_NAMES"), "a");
    if (names && *name)
        fprintf(names, "%s %d %llu\n", name, version, (unsigned long long)flags);
    if (names)
        fclose(names);
    if (!*found)
        *found = (void *)not_supported;
    return SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status)
{
    int best = -1, best_of_thread = -1;
    for (unsigned i = 0; i < sizeof ADDRESSES / sizeof *ADDRESSES; i++) {
        if (strcmp(ADDRESSES[i].name, name) || ADDRESSES[i].version > version)
            continue;
        int *chosen = ADDRESSES[i].is_of_thread ? &best_of_thread : &best;
        if ((!ADDRESSES[i].is_of_thread || flags & 2) && (*chosen < 0 || ADDRESSES[*chosen].version < ADDRESSES[i].version))
            *chosen = (int)i;
    }
    best = best_of_thread >= 0 ? best_of_thread : best;
    *found = best < 0 ? NULL : ADDRESSES[best].function;
    if (getenv("FAKECUDA_OTHER_ADDRESSES"))
        *found = other_address(*found);
    if (getenv("FAKECUDA_NAMES"))
        return status ? *status = 0 : 0, answer_all(name, found, version, flags);
    if (status)
        *status = best < 0;
    return best < 0 ? NOT_FOUND : SUCCESS;
}
CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(name, found, version, flags, NULL);
}
