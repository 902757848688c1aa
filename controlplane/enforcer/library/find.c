/* Programs get our functions in place of the driver's, however they ask for them.
 *
 * Linked programs do, as a preloaded library is searched first. For those that ask dlsym or the driver itself
 * (cuGetProcAddress), what is found is swapped by its *address*, never by its name: one name stands for functions with
 * other arguments in other versions of the interface, and only the driver knows which of them was asked for. */
#define _GNU_SOURCE
#include "weft.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

typedef void *finder(void *, const char *);

weft_driver weft_real;

static finder *real_dlsym;
static atomic_int is_found;
static pthread_mutex_t finding = PTHREAD_MUTEX_INITIALIZER;

static const struct {
    const char *name, *base;
    int version, is_of_thread;
    void *ours; /* NULL: we only call it */
    size_t at;  /* in weft_real */
} FUNCTIONS[] = {
#define STOOD_IN(name, base, version, is_of_thread, arguments) \
    {#name, #base, version, is_of_thread, (void *)name, offsetof(weft_driver, name)},
#define CALLED(name, arguments) {#name, NULL, 0, 0, NULL, offsetof(weft_driver, name)},
    WEFT_STOOD_IN_FOR(STOOD_IN) WEFT_CALLED(CALLED)
#undef STOOD_IN
#undef CALLED
};
enum { COUNT = sizeof FUNCTIONS / sizeof *FUNCTIONS };

static void *given[COUNT]; /* what cuGetProcAddress gives for each: the same address, or another one of the same function */

static void **real(int number) { return (void **)((char *)&weft_real + FUNCTIONS[number].at); }

static finder *find_dlsym(void)
{
    static const char *const VERSIONS[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (int i = 0; !real_dlsym && i < 3; i++)
        real_dlsym = (finder *)dlvsym(RTLD_NEXT, "dlsym", VERSIONS[i]);
    return real_dlsym;
}

static void ask_driver(int number)
{
    const uint64_t flags = FUNCTIONS[number].is_of_thread ? 2 : 1; /* each thread's default stream, or the legacy one */
    int status;
    if (!FUNCTIONS[number].ours || !*real(number))
        return;
    if (weft_real.cuGetProcAddress_v2)
        weft_real.cuGetProcAddress_v2(FUNCTIONS[number].base, &given[number], FUNCTIONS[number].version, flags, &status);
    else if (weft_real.cuGetProcAddress)
        weft_real.cuGetProcAddress(FUNCTIONS[number].base, &given[number], FUNCTIONS[number].version, flags);
}

/* load: also if the program has not loaded the driver itself. */
static int find(int load)
{
    if (is_found)
        return 1;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
    if (!driver)
        return 0;
    pthread_mutex_lock(&finding);
    for (int i = 0; !is_found && i < COUNT; i++)
        *real(i) = find_dlsym()(driver, FUNCTIONS[i].name);
    for (int i = 0; !is_found && i < COUNT; i++)
        ask_driver(i);
    is_found = 1;
    pthread_mutex_unlock(&finding);
    return 1;
}

int weft_find(void) { return find(1); }

/* That it is there can be seen (programs/probe.c). */
VISIBLE int weft_gpu_version(void) { return 1; }

void *weft_dlsym(void *library, const char *name) { return find_dlsym() ? real_dlsym(library, name) : NULL; }

static int is_of_driver(const char *name) { return name && name[0] == 'c' && name[1] == 'u'; }

/* Ours in place of the driver's function at this address. */
static void *swap(void *found)
{
    for (int i = 0; found && i < COUNT; i++)
        if (FUNCTIONS[i].ours && (*real(i) == found || given[i] == found))
            return FUNCTIONS[i].ours;
    return found;
}

static void *ours_by_name(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (FUNCTIONS[i].ours && !strcmp(FUNCTIONS[i].name, name))
            return FUNCTIONS[i].ours;
    return NULL;
}

/* RTLD_NEXT and RTLD_DEFAULT mean a place relative to the caller, which the C library knows by its return address:
 * so the call is handed on as a jump, and nothing may be done after it. Our own functions stand for what would be
 * found. */
VISIBLE __attribute__((optimize("O2", "optimize-sibling-calls"), noinline)) void *dlsym(void *handle, const char *name)
{
    if (!real_dlsym && !find_dlsym())
        return NULL;
    if (is_of_driver(name) && find(0)) {
        void *ours = handle == RTLD_NEXT || handle == RTLD_DEFAULT ? ours_by_name(name) : NULL;
        if (ours)
            return ours;
        if (handle != RTLD_NEXT && handle != RTLD_DEFAULT)
            return swap(real_dlsym(handle, name));
    }
    if (!strncmp(name, "nvmlDeviceGetMemoryInfo", 23) && handle != RTLD_NEXT && handle != RTLD_DEFAULT)
        return weft_nvml(real_dlsym(handle, name));
    return real_dlsym(handle, name);
}

VISIBLE CUresult cuGetProcAddress(const char *name, void **found, int version, uint64_t flags)
{
    if (!weft_find() || !weft_real.cuGetProcAddress)
        return CUDA_NOT_INITIALIZED;
    CUresult result = weft_real.cuGetProcAddress(name, found, version, flags);
    if (found)
        *found = swap(*found);
    return result;
}

VISIBLE CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status)
{
    if (!weft_find() || !weft_real.cuGetProcAddress_v2)
        return CUDA_NOT_INITIALIZED;
    CUresult result = weft_real.cuGetProcAddress_v2(name, found, version, flags, status);
    if (found)
        *found = swap(*found);
    return result;
}
