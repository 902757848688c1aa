/* A program that uses a GPU, for tests and benchmarks: client COMMAND ARGUMENTS. It knows nothing of our library.
 *
 * It gets the driver's functions in the way that the variable WAY names: linked, dlsym, next, default, address (of CUDA
 * 12), address11. With HOLD_MIB it has so much memory all the time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long pointer;
#define LAUNCH (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)
/* name of the symbol, base name, version of CUDA that has it, arguments */
#define USED(X) \
    X(cuInit, cuInit, 2000, (unsigned)) \
    X(cuCtxCreate_v2, cuCtxCreate, 3020, (void **, unsigned, int)) \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, (void *)) \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, (void *)) \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, (void)) \
    X(cuModuleLoadData, cuModuleLoadData, 2000, (void **, const void *)) \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, (void **, void *, const char *)) \
    X(cuLaunchKernel, cuLaunchKernel, 4000, LAUNCH) \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, (pointer *, size_t)) \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, (pointer *, size_t, void *)) \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, (pointer *, size_t *, size_t, size_t, unsigned)) \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, (pointer *, size_t, unsigned)) \
    X(cuMemCreate, cuMemCreate, 10020, (pointer *, size_t, const void *, unsigned long long)) \
    X(cuArrayCreate_v2, cuArrayCreate, 3020, (void **, const void *)) \
    X(cuMemFree_v2, cuMemFree, 3020, (pointer)) \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, (size_t *, size_t *)) \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, (size_t *, int)) \
    X(cuStreamCreate, cuStreamCreate, 2000, (void **, unsigned)) \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010, (void *, int)) \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, (void *, void **)) \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, (void **, void *, unsigned long long)) \
    X(cuGraphLaunch, cuGraphLaunch, 10000, (void *, void *))

#define DECLARE(name, base, version, arguments) int name arguments;
USED(DECLARE)
#define FIELD(name, base, version, arguments) int(*name) arguments;
static struct { USED(FIELD) } cu;

int cuGetProcAddress(const char *, void **, int, uint64_t);
int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);

static void *look_up(const char *way, void *linked, const char *name, const char *base, int version)
{
    void *found = NULL;
    int status;
    if (!strcmp(way, "linked"))
        return linked;
    if (!strcmp(way, "next"))
        return dlsym(RTLD_NEXT, name);
    if (!strcmp(way, "default"))
        return dlsym(RTLD_DEFAULT, name);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!strcmp(way, "dlsym"))
        return dlsym(driver, name);
    if (!strcmp(way, "address11")) {
        int (*get)(const char *, void **, int, uint64_t) = dlsym(driver, "cuGetProcAddress");
        get(base, &found, version, 0);
    } else {
        int (*get)(const char *, void **, int, uint64_t, int *) = dlsym(driver, "cuGetProcAddress_v2");
        get("cuGetProcAddress", (void **)&get, 12000, 0, &status); /* as cudart does: the one that it is given */
        get(base, &found, version, 0, &status);
    }
    return found;
}

static void *context, *module;

static void begin(void)
{
    const char *way = getenv("WAY") ? getenv("WAY") : "linked";
#define FIND(name, base, version, arguments) cu.name = look_up(way, (void *)name, #name, #base, version);
    USED(FIND)
    if (cu.cuInit(0) || cu.cuCtxCreate_v2(&context, 0, 0) || cu.cuModuleLoadData(&module, "")) {
        fprintf(stderr, "no GPU\n");
        exit(3);
    }
    pointer kept;
    if (getenv("HOLD_MIB") && cu.cuMemAlloc_v2(&kept, (size_t)atol(getenv("HOLD_MIB")) << 20))
        exit(4);
}

static void *kernel(long us)
{
    char name[32];
    void *found = NULL;
    snprintf(name, sizeof name, "busy_%ld", us);
    cu.cuModuleGetFunction(&found, module, name);
    return found;
}

static int launch(void *function, unsigned blocks, void *stream)
{
    return cu.cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static int64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static void nap(int64_t ns)
{
    struct timespec length = {ns / 1000000000, ns % 1000000000};
    if (ns > 0)
        nanosleep(&length, NULL);
}

/* reach MIB: launch once, ask what there is, ask for so much. */
static int reach(char **given)
{
    size_t left, total, device;
    pointer made = 0;
    int launched = launch(kernel(100), 1, NULL);
    cu.cuMemGetInfo_v2(&left, &total);
    cu.cuDeviceTotalMem_v2(&device, 0);
    int asked = cu.cuMemAlloc_v2(&made, (size_t)atol(given[0]) << 20);
    printf("launch %d free %zu total %zu device %zu alloc %d\n", launched, left >> 20, total >> 20, device >> 20, asked);
    return 0;
}

/* work KERNEL_US KERNELS GAP_US SECONDS: steps of so many kernels, with a wait and a gap after each; prints us of each
 * step. GAP_US below 0: no waits either. STREAMS: over so many, up to 8. */
static int work(char **given)
{
    void *function = kernel(atol(given[0])), *streams[8] = {NULL};
    long kernels = atol(given[1]), gap = atol(given[2]), steps = 0, room = 1 << 20;
    int several = getenv("STREAMS") ? atoi(getenv("STREAMS")) : 1;
    for (int i = 1; i < several; i++)
        cu.cuStreamCreate(&streams[i], 1);
    int64_t until = now() + (int64_t)(atof(given[3]) * 1e9), *took = malloc((size_t)room * sizeof *took);
    while (now() < until && steps < room) {
        int64_t begun = now();
        for (long i = 0; i < kernels && (gap >= 0 || now() < until); i++)
            launch(function, 1, streams[i % several]);
        if (gap >= 0)
            cu.cuCtxSynchronize();
        took[steps++] = now() - begun;
        nap(gap * 1000);
    }
    cu.cuCtxSynchronize();
    for (long i = 0; i < steps; i++)
        printf("%ld\n", (long)(took[i] / 1000));
    return 0;
}

/* overlapped KERNEL_US KERNELS CPU_US STEPS: the processor is busy for so long in each step, while the GPU works. */
static int overlapped(char **given)
{
    void *function = kernel(atol(given[0]));
    long kernels = atol(given[1]), cpu = atol(given[2]), steps = atol(given[3]);
    int64_t begun = now();
    for (long step = 0; step < steps; step++) {
        for (long i = 0; i < kernels; i++)
            launch(function, 1, NULL);
        nap(cpu * 1000);
    }
    cu.cuCtxSynchronize();
    printf("%ld\n", (long)((now() - begun) / steps / 1000));
    return 0;
}

/* launches NUMBER ROUNDS: ns of a launch of a kernel that takes no time, the least mean of the rounds. */
static int launches(char **given)
{
    void *function = kernel(0);
    long number = atol(given[0]), rounds = atol(given[1]);
    int64_t best = INT64_MAX;
    for (long i = 0; i < rounds; i++) {
        int64_t begun = now();
        for (long j = 0; j < number; j++)
            launch(function, 1, NULL);
        int64_t took = (now() - begun) / number;
        best = took < best ? took : best;
        cu.cuCtxSynchronize();
    }
    printf("%ld\n", (long)best);
    return 0;
}

static long allocations, most_bytes, refused, strange;

static void *allocate_some(void *number)
{
    enum { KEPT = 16 };
    pointer kept[KEPT] = {0};
    unsigned seed = (unsigned)(uintptr_t)number;
    cu.cuCtxSetCurrent(context);
    for (long i = 0; i < allocations; i++) {
        pointer *one = &kept[rand_r(&seed) % KEPT];
        if (*one)
            cu.cuMemFree_v2(*one);
        *one = 0;
        int result = cu.cuMemAlloc_v2(one, 1 + (size_t)(rand_r(&seed) % most_bytes));
        if (result) {
            *one = 0;
            __atomic_add_fetch(result == 2 ? &refused : &strange, 1, __ATOMIC_SEQ_CST);
        }
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i])
            cu.cuMemFree_v2(kept[i]);
    return NULL;
}

/* allocate THREADS EACH MOST_BYTES SEED: prints how many were refused with the driver's code 2, and with another
 * one. */
static int allocate(char **given)
{
    long threads = atol(given[0]);
    pthread_t made[64];
    allocations = atol(given[1]), most_bytes = atol(given[2]);
    for (long i = 0; i < threads; i++)
        pthread_create(&made[i], NULL, allocate_some, (void *)(uintptr_t)(atol(given[3]) + i));
    for (long i = 0; i < threads; i++)
        pthread_join(made[i], NULL);
    printf("refused %ld strange %ld\n", refused, strange);
    return 0;
}

/* kinds MIB: ask for so much by each function there is, and give it back; prints the codes. */
static int kinds(char **given)
{
    size_t bytes = (size_t)atol(given[0]) << 20, pitch;
    int device[8] = {1, 0, 1, 0}, host[8] = {1, 0, 2, 0};
    struct { size_t width, height; int format; unsigned channels; } shape = {bytes / 4, 1, 32, 1};
    pointer made;
    void *array;
    printf("alloc %d\n", cu.cuMemAlloc_v2(&made, bytes));
    printf("async %d\n", cu.cuMemAllocAsync(&made, bytes, NULL));
    printf("pitch %d\n", cu.cuMemAllocPitch_v2(&made, &pitch, bytes / 1024, 1024, 4));
    printf("managed %d\n", cu.cuMemAllocManaged(&made, bytes, 1));
    printf("create %d\n", cu.cuMemCreate(&made, bytes, device, 0));
    printf("array %d\n", cu.cuArrayCreate_v2(&array, &shape));
    printf("host %d\n", cu.cuMemCreate(&made, bytes, host, 0));
    return 0;
}

/* hold MIB: have so much and wait to be killed; says when it has. */
static int hold(char **given)
{
    pointer made;
    printf("%d\n", cu.cuMemAlloc_v2(&made, (size_t)atol(given[0]) << 20));
    fflush(stdout);
    while (pause()) {
    }
    return 0;
}

/* contexts MIB: have so much, destroy the context, have it again in another one. */
static int contexts(char **given)
{
    pointer made;
    size_t bytes = (size_t)atol(given[0]) << 20;
    int first = cu.cuMemAlloc_v2(&made, bytes), full = cu.cuMemAlloc_v2(&made, bytes);
    cu.cuCtxDestroy_v2(context);
    cu.cuCtxCreate_v2(&context, 0, 0);
    printf("%d %d %d\n", first, full, cu.cuMemAlloc_v2(&made, bytes));
    return 0;
}

/* fork MIB: work, have so much, and do the same in a child. */
static int forked(char **given)
{
    pointer made;
    size_t bytes = (size_t)atol(given[0]) << 20;
    int launched = launch(kernel(1000), 1, NULL), had = cu.cuMemAlloc_v2(&made, bytes);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        begin();
        for (int i = 0; i < 300 && !launched; i++)
            launched = launch(kernel(1000), 1, NULL);
        cu.cuCtxSynchronize();
        printf("child launch %d alloc %d\n", launched, cu.cuMemAlloc_v2(&made, bytes));
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    size_t left, total;
    int again = launch(kernel(1000), 1, NULL);
    cu.cuMemGetInfo_v2(&left, &total);
    printf("parent launch %d alloc %d again %d free %zu\n", launched, had, again, left >> 20);
    return 0;
}

static void *launch_beside(void *seconds)
{
    int64_t until = now() + (int64_t)(*(double *)seconds * 1e9);
    void *function = kernel(1000);
    cu.cuCtxSetCurrent(context);
    while (now() < until)
        launch(function, 1, NULL);
    return NULL;
}

/* capture SECONDS: capture and launch graphs, while another thread launches kernels; prints how many were broken. */
static int capture(char **given)
{
    double seconds = atof(given[0]);
    int64_t until = now() + (int64_t)(seconds * 1e9);
    void *stream, *graph, *ready, *function = kernel(100);
    long captures = 0, broken = 0;
    pthread_t beside;
    cu.cuStreamCreate(&stream, 1);
    pthread_create(&beside, NULL, launch_beside, &seconds);
    while (now() < until) {
        cu.cuStreamBeginCapture_v2(stream, 0);
        for (int i = 0; i < 20; i++)
            launch(function, 1, stream);
        nap(2000000);
        captures++;
        if (cu.cuStreamEndCapture(stream, &graph)) {
            broken++;
            continue;
        }
        cu.cuGraphInstantiateWithFlags(&ready, graph, 0);
        cu.cuGraphLaunch(ready, stream);
    }
    pthread_join(beside, NULL);
    cu.cuCtxSynchronize();
    printf("captures %ld broken %ld\n", captures, broken);
    return 0;
}

/* fetched FILE: ask the driver for what the file says (NAME VERSION FLAGS a line); prints each line with the symbol that
 * lies where the answer points to, and the library that it is of. */
static int fetched(char **given)
{
    FILE *names = fopen(given[0], "r");
    char name[256];
    int version, status;
    unsigned long long flags;
    while (names && fscanf(names, "%255s %d %llu", name, &version, &flags) == 3) {
        void *found = NULL;
        Dl_info where = {0};
        cuGetProcAddress_v2(name, &found, version, flags, &status);
        if (found && dladdr(found, &where) && where.dli_sname)
            printf("%s %d %llu %s %s\n", name, version, flags, where.dli_sname, strrchr(where.dli_fname, '/') + 1);
        else
            printf("%s %d %llu - -\n", name, version, flags);
    }
    return 0;
}

int main(int count, char **given)
{
    static const struct { const char *name; int arguments; int (*run)(char **); } COMMANDS[] = {
        {"reach", 1, reach}, {"work", 4, work}, {"overlapped", 4, overlapped}, {"launches", 2, launches},
        {"allocate", 4, allocate}, {"kinds", 1, kinds}, {"hold", 1, hold}, {"contexts", 1, contexts},
        {"fork", 1, forked}, {"capture", 1, capture},
        {"fetched", 1, fetched},
    };
    for (unsigned i = 0; count > 1 && i < sizeof COMMANDS / sizeof *COMMANDS; i++)
        if (!strcmp(COMMANDS[i].name, given[1]) && COMMANDS[i].arguments == count - 2) {
            begin();
            return COMMANDS[i].run(given + 2);
        }
    fprintf(stderr, "usage: client COMMAND ARGUMENTS\n");
    return 2;
}
