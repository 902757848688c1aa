/* What we call and stand in for of the CUDA driver's interface, in our own words: names, orders and sizes of
 * arguments. */
#ifndef WEFT_DRIVER_H
#define WEFT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
enum { CUDA_SUCCESS = 0, CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_INITIALIZED = 3 };

typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef void *CUcontext, *CUstream, *CUevent, *CUfunction, *CUgraph, *CUgraphExec, *CUpool, *CUarray, *CUmipmap;

typedef struct {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void *attributes;
    unsigned count;
} CUlaunchConfig;

typedef struct {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **arguments;
} CUlaunchParams;

typedef struct {
    size_t width, height;
    int format;
    unsigned channels;
} CUarrayShape;

typedef struct {
    size_t width, height, depth;
    int format;
    unsigned channels, flags;
} CUarrayShape3D;

typedef struct {
    int type, handles, place, number; /* place: 1 is a device */
} CUmemProperties; /* what we read of it; the real one is longer */

enum { CU_PLACE_DEVICE = 1 };
#define CU_STREAM_PER_THREAD ((CUstream)2)
enum { CU_EVENT_BLOCKING = 1 };

#define LAUNCH CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **

/* X(name, ...): the functions that the library stands in for. What the driver itself calls each, since which version of
 * CUDA it has these arguments, whether it is for the default stream of each thread, and the arguments. */
#define WEFT_STOOD_IN_FOR(X) \
    X(cuGetProcAddress, cuGetProcAddress, 11030, 0, (const char *, void **, int, uint64_t)) \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000, 0, (const char *, void **, int, uint64_t, int *)) \
    X(cuLaunchKernel, cuLaunchKernel, 4000, 0, (LAUNCH, void **)) \
    X(cuLaunchKernel_ptsz, cuLaunchKernel, 7000, 1, (LAUNCH, void **)) \
    X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, 0, (const CUlaunchConfig *, CUfunction, void **, void **)) \
    X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, 11060, 1, (const CUlaunchConfig *, CUfunction, void **, void **)) \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, 0, (LAUNCH)) \
    X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, 9000, 1, (LAUNCH)) \
    X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, 9000, 0, \
      (CUlaunchParams *, unsigned, unsigned)) \
    X(cuGraphLaunch, cuGraphLaunch, 10000, 0, (CUgraphExec, CUstream)) \
    X(cuGraphLaunch_ptsz, cuGraphLaunch, 10000, 1, (CUgraphExec, CUstream)) \
    X(cuLaunch, cuLaunch, 2000, 0, (CUfunction)) \
    X(cuLaunchGrid, cuLaunchGrid, 2000, 0, (CUfunction, int, int)) \
    X(cuLaunchGridAsync, cuLaunchGridAsync, 2000, 0, (CUfunction, int, int, CUstream)) \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, 0, (void)) \
    X(cuCtxSynchronize_v2, cuCtxSynchronize, 13000, 0, (CUcontext)) \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, 0, (CUstream)) \
    X(cuStreamSynchronize_ptsz, cuStreamSynchronize, 7000, 1, (CUstream)) \
    X(cuEventSynchronize, cuEventSynchronize, 2000, 0, (CUevent)) \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, 0, (CUdeviceptr, const void *, size_t)) \
    X(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD, 7000, 1, (CUdeviceptr, const void *, size_t)) \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, 0, (void *, CUdeviceptr, size_t)) \
    X(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH, 7000, 1, (void *, CUdeviceptr, size_t)) \
    X(cuStreamDestroy_v2, cuStreamDestroy, 4000, 0, (CUstream)) \
    X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, 0, (CUstream)) \
    X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, 10000, 1, (CUstream)) \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, 0, (CUstream, int)) \
    X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture, 10010, 1, (CUstream, int)) \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, 0, \
      (CUstream, CUgraph, const void *, const void *, size_t, int)) \
    X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, 12030, 1, \
      (CUstream, CUgraph, const void *, const void *, size_t, int)) \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, 0, (CUstream, CUgraph *)) \
    X(cuStreamEndCapture_ptsz, cuStreamEndCapture, 10000, 1, (CUstream, CUgraph *)) \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0, (CUcontext)) \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, 0, (CUdevice)) \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, 0, (CUdeviceptr *, size_t)) \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, 0, (CUdeviceptr *, size_t, unsigned)) \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, 0, (CUdeviceptr *, size_t *, size_t, size_t, unsigned)) \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, 0, (CUdeviceptr *, size_t, CUstream)) \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, 1, (CUdeviceptr *, size_t, CUstream)) \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 0, (CUdeviceptr *, size_t, CUpool, CUstream)) \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, 1, (CUdeviceptr *, size_t, CUpool, CUstream)) \
    X(cuMemFree_v2, cuMemFree, 3020, 0, (CUdeviceptr)) \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, 0, (CUdeviceptr, CUstream)) \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, 1, (CUdeviceptr, CUstream)) \
    X(cuMemCreate, cuMemCreate, 10020, 0, (CUdeviceptr *, size_t, const CUmemProperties *, unsigned long long)) \
    X(cuMemRelease, cuMemRelease, 10020, 0, (CUdeviceptr)) \
    X(cuArrayCreate_v2, cuArrayCreate, 3020, 0, (CUarray *, const CUarrayShape *)) \
    X(cuArray3DCreate_v2, cuArray3DCreate, 3020, 0, (CUarray *, const CUarrayShape3D *)) \
    X(cuArrayDestroy, cuArrayDestroy, 2000, 0, (CUarray)) \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, 0, (CUmipmap *, const CUarrayShape3D *, unsigned)) \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, 0, (CUmipmap)) \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, 0, (size_t *, size_t *)) \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, 0, (size_t *, CUdevice))

/* Those that it only calls. */
#define WEFT_CALLED(X) \
    X(cuCtxGetCurrent, (CUcontext *)) \
    X(cuCtxPushCurrent_v2, (CUcontext)) \
    X(cuCtxPopCurrent_v2, (CUcontext *)) \
    X(cuEventCreate, (CUevent *, unsigned)) \
    X(cuEventDestroy_v2, (CUevent)) \
    X(cuEventRecord, (CUevent, CUstream)) \
    X(cuEventRecord_ptsz, (CUevent, CUstream)) \
    X(cuEventQuery, (CUevent)) \
    X(cuEventElapsedTime, (float *, CUevent, CUevent)) \
    X(cuStreamIsCapturing, (CUstream, int *))

#define DECLARE(name, base, version, is_of_thread, arguments) CUresult name arguments;
WEFT_STOOD_IN_FOR(DECLARE)
#undef DECLARE

#endif
