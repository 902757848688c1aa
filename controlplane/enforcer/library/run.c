/* Kernels, through the gate; and calls that wait for the GPU, which say when its queue was empty. */
#define _GNU_SOURCE
#include "weft.h"

#define RUN(name, function, blocks, stream, is_of_thread, ...) \
    if (!weft_find() || !weft_real.name) \
        return CUDA_NOT_INITIALIZED; \
    int is_gated = weft_gate_opens(function, blocks, stream, is_of_thread); \
    CUresult result = weft_real.name(__VA_ARGS__); \
    if (is_gated) \
        weft_gate_shuts(); \
    return result;

#define WAIT(name, ...) \
    if (!weft_find() || !weft_real.name) \
        return CUDA_NOT_INITIALIZED; \
    weft_before_wait(); \
    CUresult result = weft_real.name(__VA_ARGS__); \
    weft_after_wait(); \
    return result;

static uint64_t product(unsigned x, unsigned y, unsigned z) { return (uint64_t)x * y * z; }

#define PARAMETERS \
    CUfunction function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, \
        CUstream stream, void **arguments
#define GIVEN function, x, y, z, bx, by, bz, shared, stream, arguments

VISIBLE CUresult cuLaunchKernel(PARAMETERS, void **extra)
{
    RUN(cuLaunchKernel, function, product(x, y, z), stream, 0, GIVEN, extra)
}
VISIBLE CUresult cuLaunchKernel_ptsz(PARAMETERS, void **extra)
{
    RUN(cuLaunchKernel_ptsz, function, product(x, y, z), stream, 1, GIVEN, extra)
}
VISIBLE CUresult cuLaunchCooperativeKernel(PARAMETERS)
{
    RUN(cuLaunchCooperativeKernel, function, product(x, y, z), stream, 0, GIVEN)
}
VISIBLE CUresult cuLaunchCooperativeKernel_ptsz(PARAMETERS)
{
    RUN(cuLaunchCooperativeKernel_ptsz, function, product(x, y, z), stream, 1, GIVEN)
}
VISIBLE CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **arguments, void **extra)
{
    RUN(cuLaunchKernelEx, function, product(how->grid[0], how->grid[1], how->grid[2]), how->stream, 0, how, function,
        arguments, extra)
}
VISIBLE CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *how, CUfunction function, void **arguments, void **extra)
{
    RUN(cuLaunchKernelEx_ptsz, function, product(how->grid[0], how->grid[1], how->grid[2]), how->stream, 1, how,
        function, arguments, extra)
}
VISIBLE CUresult cuLaunchCooperativeKernelMultiDevice(CUlaunchParams *list, unsigned count, unsigned flags)
{
    RUN(cuLaunchCooperativeKernelMultiDevice, list->function, product(list->grid[0], list->grid[1], list->grid[2]),
        list->stream, 0, list, count, flags)
}
VISIBLE CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) { RUN(cuGraphLaunch, graph, 1, stream, 0, graph, stream) }
VISIBLE CUresult cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream)
{
    RUN(cuGraphLaunch_ptsz, graph, 1, stream, 1, graph, stream)
}
VISIBLE CUresult cuLaunch(CUfunction function) { RUN(cuLaunch, function, 1, NULL, 0, function) }
VISIBLE CUresult cuLaunchGrid(CUfunction function, int width, int height)
{
    RUN(cuLaunchGrid, function, product((unsigned)width, (unsigned)height, 1), NULL, 0, function, width, height)
}
VISIBLE CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    RUN(cuLaunchGridAsync, function, product((unsigned)width, (unsigned)height, 1), stream, 0, function, width, height,
        stream)
}

VISIBLE CUresult cuCtxSynchronize(void) { WAIT(cuCtxSynchronize) }
VISIBLE CUresult cuCtxSynchronize_v2(CUcontext context) { WAIT(cuCtxSynchronize_v2, context) }
VISIBLE CUresult cuStreamSynchronize(CUstream stream) { WAIT(cuStreamSynchronize, stream) }
VISIBLE CUresult cuStreamSynchronize_ptsz(CUstream stream) { WAIT(cuStreamSynchronize_ptsz, stream) }
VISIBLE CUresult cuEventSynchronize(CUevent event) { WAIT(cuEventSynchronize, event) }
VISIBLE CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { WAIT(cuMemcpyHtoD_v2, to, from, size) }
VISIBLE CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t size)
{
    WAIT(cuMemcpyHtoD_v2_ptds, to, from, size)
}
VISIBLE CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { WAIT(cuMemcpyDtoH_v2, to, from, size) }
VISIBLE CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t size)
{
    WAIT(cuMemcpyDtoH_v2_ptds, to, from, size)
}

VISIBLE CUresult cuStreamDestroy_v2(CUstream stream)
{
    if (!weft_find() || !weft_real.cuStreamDestroy_v2)
        return CUDA_NOT_INITIALIZED;
    weft_on_destroyed(stream);
    return weft_real.cuStreamDestroy_v2(stream);
}

/* While anything is captured, a call of ours that waits or asks would break the capture, from whatever thread. */
#define BEGIN(name, ...) \
    if (!weft_find() || !weft_real.name) \
        return CUDA_NOT_INITIALIZED; \
    weft_on_capture(1); \
    CUresult result = weft_real.name(__VA_ARGS__); \
    if (result != CUDA_SUCCESS) \
        weft_on_capture(-1); \
    return result;
#define END(name, ...) \
    if (!weft_find() || !weft_real.name) \
        return CUDA_NOT_INITIALIZED; \
    CUresult result = weft_real.name(__VA_ARGS__); \
    weft_on_capture(-1); \
    return result;

VISIBLE CUresult cuStreamBeginCapture(CUstream stream) { BEGIN(cuStreamBeginCapture, stream) }
VISIBLE CUresult cuStreamBeginCapture_ptsz(CUstream stream) { BEGIN(cuStreamBeginCapture_ptsz, stream) }
VISIBLE CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) { BEGIN(cuStreamBeginCapture_v2, stream, mode) }
VISIBLE CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode)
{
    BEGIN(cuStreamBeginCapture_v2_ptsz, stream, mode)
}
#define TO_GRAPH CUstream stream, CUgraph graph, const void *on, const void *edges, size_t count, int mode
VISIBLE CUresult cuStreamBeginCaptureToGraph(TO_GRAPH)
{
    BEGIN(cuStreamBeginCaptureToGraph, stream, graph, on, edges, count, mode)
}
VISIBLE CUresult cuStreamBeginCaptureToGraph_ptsz(TO_GRAPH)
{
    BEGIN(cuStreamBeginCaptureToGraph_ptsz, stream, graph, on, edges, count, mode)
}

VISIBLE CUresult cuStreamEndCapture(CUstream stream, CUgraph *made) { END(cuStreamEndCapture, stream, made) }
VISIBLE CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *made) { END(cuStreamEndCapture_ptsz, stream, made) }
