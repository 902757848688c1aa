/* How much of the GPU's time this process has queued, known from what its kernels took before.
 *
 * A token is worth something only if little is queued when it goes on, as what is queued still runs. So after each
 * 2 ms of expected work an event follows it into its stream, the end of a *segment*; a launch that would queue too
 * much waits for the oldest one. The time between two events says what the kernels between them took, each known by
 * function and number of blocks. All of this is under the gate's lock. */
#define _GNU_SOURCE
#include "weft.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    KERNELS = 8192, /* known at once; a power of two */
    PROBES = 8,
    SEGMENTS = 128,  /* at 2 ms each more than may ever be queued */
    KINDS = 16,      /* of kernels in a segment, for what is learned from it */
    LAUNCHES = 256,  /* most in a segment, however short they are */
};
#define SEGMENT (2 * MS)
#define QUEUE (5 * MS)
#define UNKNOWN (1 * MS)   /* what a kernel is expected to take that was never seen */
#define LEAD (400 * US)    /* the token goes on so long before the queue ends: as long as that takes */
#define SURE (100 * US)    /* if a segment's end is known that well */
#define LONG (8 * MS)      /* what another process had left over does not change the length of such a segment */
#define GAP_KEPT (1000 * MS)
#define LONGEST_GAP (200 * MS)

struct kernel {
    CUfunction function;
    uint64_t blocks; /* 0: of the function, whatever its number of blocks */
    int64_t ns, error;
    uint64_t seen_blocks;
    uint32_t seen;
};
struct segment {
    CUstream stream;
    int is_of_thread, is_measured, is_alone, has_start, count, kinds, has_unknown;
    int64_t expected;
    int entry[KINDS], launches[KINDS];
    CUevent start, end;
    CUcontext context; /* of the events */
};

static struct kernel kernels[KERNELS];
static struct segment ring[SEGMENTS]; /* [first, next) have ended and may still run; next is the one being filled */
static uint64_t first, next;
static int64_t pending;    /* ns, expected of all of them */
static int64_t busy_until; /* when they will be done */
static int64_t last_end;   /* when a segment was seen to end at that very moment; 0: not known */
static int64_t gap, gap_before, gap_since, last_call;
static int is_first, streams, captures; /* of this turn: its first segment; streams used, 2: several */
static int calls;        /* threads that wait for an event just now */
static int is_alone = 1; /* the GPU is ours for now: what takes long is our own */
static CUcontext context;

int64_t weft_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void weft_captures(int change) { captures += change; }
int weft_is_capturing(void) { return captures > 0; }
int weft_is_waiting(void) { return calls > 0; }

void weft_pace_forget(void)
{
    memset(ring, 0, sizeof ring); /* the events were the context's */
    first = next = 0;
    pending = busy_until = last_end = 0;
    streams = 0;
    context = NULL;
}

void weft_pace_forked(void)
{
    weft_pace_forget();
    captures = calls = 0; /* those were other threads */
}

static struct kernel *find(CUfunction function, uint64_t blocks)
{
    uint64_t hash = ((uint64_t)(uintptr_t)function >> 4) * 0x9E3779B97F4A7C15ull ^ blocks * 0xC2B2AE3D27D4EB4Full;
    size_t at = (size_t)(hash >> 32) & (KERNELS - 1);
    for (int i = 0; i < PROBES; i++) {
        struct kernel *one = &kernels[(at + (size_t)i) & (KERNELS - 1)];
        if (one->function == function && one->blocks == blocks)
            return one;
        if (!one->function) {
            *one = (struct kernel){.function = function, .blocks = blocks, .ns = UNKNOWN};
            return one;
        }
    }
    kernels[at] = (struct kernel){.function = function, .blocks = blocks, .ns = UNKNOWN};
    return &kernels[at];
}

int64_t weft_expect(CUfunction function, uint64_t blocks, int *entry)
{
    struct kernel *one = find(function, blocks);
    *entry = (int)(one - kernels);
    if (!one->seen) {
        struct kernel *alike = find(function, 0);
        if (alike->seen && alike->seen_blocks) /* as much for a block as with the number of blocks seen last */
            one->ns = (int64_t)((double)alike->ns * (double)blocks / (double)alike->seen_blocks);
    }
    return one->ns;
}

int64_t weft_queued(int64_t now) { return busy_until > now ? busy_until - now : 0; }

int64_t weft_most_queued(int64_t now)
{
    if (now - gap_since > GAP_KEPT) {
        gap_before = gap;
        gap = 0;
        gap_since = now;
    }
    if (next - first >= SEGMENTS - 2)
        return -1; /* no place for another segment */
    return QUEUE + (gap > gap_before ? gap : gap_before) * 5 / 4;
}

/* How long the program was busy elsewhere while the GPU worked: so much has to be queued, or the GPU idles then. */
void weft_called(int64_t now)
{
    int64_t length = now - last_call;
    if (last_call && busy_until > last_call && length > gap)
        gap = length < LONGEST_GAP ? length : LONGEST_GAP;
    last_call = now;
}

int64_t weft_last_call(void) { return last_call; }

static void learn_one(struct kernel *one, int64_t ns, int64_t error)
{
    int64_t weight = one->seen < 2 ? 1 : 4;
    one->ns += (ns - one->ns) / weight;
    one->error += (error - one->error) / weight;
    one->seen += one->seen < 1000;
}

static void learn(struct segment *done, CUevent start)
{
    float ms;
    if (!done->is_measured || !start || weft_real.cuEventElapsedTime(&ms, start, done->end) != CUDA_SUCCESS)
        return;
    int64_t took = (int64_t)((double)ms * 1e6), expected = 0;
    for (int i = 0; i < done->kinds; i++)
        expected += kernels[done->entry[i]].ns * done->launches[i];
    int64_t error = took > expected ? took - expected : expected - took;
    double ratio = expected > 0 ? (double)took / (double)expected : 1.0;
    ratio = ratio > 8 ? 8 : ratio < 0.125 ? 0.125 : ratio;
    for (int i = 0; i < done->kinds; i++) {
        struct kernel *one = &kernels[done->entry[i]];
        if (!done->is_alone && one->seen)
            continue;
        int64_t ns = done->kinds == 1 ? took / done->launches[0] : (int64_t)((double)one->ns * ratio);
        learn_one(one, ns, error);
        struct kernel *alike = find(one->function, 0);
        alike->ns = one->ns, alike->seen_blocks = one->blocks, alike->seen = 1;
    }
}

static void retire(void)
{
    struct segment *done = &ring[first % SEGMENTS];
    learn(done, done->has_start ? done->start : first ? ring[(first - 1) % SEGMENTS].end : NULL);
    pending -= done->expected;
    first++;
}

static int is_done(uint64_t number) { return weft_real.cuEventQuery(ring[number % SEGMENTS].end) == CUDA_SUCCESS; }

/* Take note of what has ended. */
static void poll_segments(int64_t now)
{
    if (captures)
        return;
    while (first < next && is_done(first)) {
        retire();
        last_end = 0;
    }
    if (busy_until > now + pending)
        busy_until = now + pending;
    if (first < next && busy_until < now + pending - ring[first % SEGMENTS].expected)
        busy_until = now + pending - ring[first % SEGMENTS].expected; /* the oldest takes longer than expected */
}

/* Events are of a context. A program has one for a GPU, but may give it up and make another one. */
static int fit_events(struct segment *one)
{
    CUcontext now = NULL;
    if (weft_real.cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now)
        return 0;
    if (one->context != now) {
        if (one->start)
            weft_real.cuEventDestroy_v2(one->start);
        if (one->end)
            weft_real.cuEventDestroy_v2(one->end);
        one->start = one->end = NULL;
    }
    context = one->context = now;
    return 1;
}

static int record(CUevent *event, CUstream stream, int is_of_thread)
{
    if (!*event && weft_real.cuEventCreate(event, CU_EVENT_BLOCKING) != CUDA_SUCCESS)
        return 0;
    if (is_of_thread && weft_real.cuEventRecord_ptsz)
        return weft_real.cuEventRecord_ptsz(*event, stream) == CUDA_SUCCESS;
    return weft_real.cuEventRecord(*event, stream) == CUDA_SUCCESS;
}

static void begin_segment(int64_t now, CUstream stream, int is_of_thread)
{
    struct segment *one = &ring[next % SEGMENTS];
    poll_segments(now);
    *one = (struct segment){.start = one->start, .end = one->end, .context = one->context};
    one->is_measured = 1;
    one->is_alone = is_alone;
    if (!captures && fit_events(one))
        one->has_start = first == next && record(&one->start, stream, is_of_thread);
}

static void end_segment(int64_t now)
{
    struct segment *one = &ring[next % SEGMENTS];
    if (!one->count || captures || next - first >= SEGMENTS - 1 || !fit_events(one) || !record(&one->end, one->stream, one->is_of_thread))
        return;
    if (!one->has_start && (first == next || is_done(next - 1)))
        one->is_measured = 0; /* the one before has ended: so there may have been nothing to do in between */
    if (is_first && !one->has_unknown && one->expected < LONG)
        one->is_measured = 0;
    is_first = 0;
    next++;
    ring[next % SEGMENTS].count = 0;
    ring[next % SEGMENTS].expected = 0;
    poll_segments(now);
}

void weft_launched(int64_t now, int64_t expected, int entry, CUstream stream, int is_of_thread)
{
    struct segment *one = &ring[next % SEGMENTS];
    last_call = now;
    if (one->count && !kernels[entry].seen) /* so that it is measured by itself */
        end_segment(now);
    if (!ring[next % SEGMENTS].count) {
        begin_segment(now, stream, is_of_thread);
        one = &ring[next % SEGMENTS];
    }
    if (one->count && stream != one->stream)
        streams = 2;
    one->stream = stream;
    one->is_of_thread = is_of_thread;
    one->expected += expected;
    one->count++;
    one->has_unknown |= !kernels[entry].seen;
    int kind = 0;
    while (kind < one->kinds && one->entry[kind] != entry)
        kind++;
    if (kind < KINDS) {
        one->launches[kind] = kind < one->kinds ? one->launches[kind] + 1 : 1;
        one->entry[kind] = entry;
        one->kinds = kind < one->kinds ? one->kinds : kind + 1;
    } else {
        one->is_measured = 0;
    }
    pending += expected;
    busy_until = (busy_until > now ? busy_until : now) + expected;
}

void weft_close_segment(void)
{
    struct segment *one = &ring[next % SEGMENTS];
    if (one->expected >= SEGMENT || one->has_unknown || one->count >= LAUNCHES)
        end_segment(weft_now());
}

void weft_end_segment(void) { end_segment(weft_now()); }
void weft_look(int64_t now) { poll_segments(now); }
int64_t weft_busy_until(void) { return busy_until; }

static void sleep_until(int64_t at, pthread_mutex_t *lock)
{
    struct timespec when = {at / 1000000000, at % 1000000000};
    pthread_mutex_unlock(lock);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
    pthread_mutex_lock(lock);
}

int weft_wait_oldest(pthread_mutex_t *lock)
{
    uint64_t number = first, segments = next - first + (ring[next % SEGMENTS].count > 0);
    if (captures) { /* no event may be waited for */
        int64_t now = weft_now(), queued = weft_queued(now);
        if (queued)
            sleep_until(now + (queued < MS ? queued : MS), lock);
        return queued > 0;
    }
    if (first == next || segments < 2)
        return 0; /* two may be queued, however long they are: the GPU would idle between them */
    poll_segments(weft_now());
    if (first != number)
        return 1;
    CUevent event = ring[number % SEGMENTS].end;
    calls++;
    pthread_mutex_unlock(lock);
    weft_real.cuEventSynchronize(event);
    pthread_mutex_lock(lock);
    calls--;
    last_call = weft_now();
    if (first == number && first < next && is_done(first)) {
        retire();
        last_end = last_call;
        busy_until = last_end + pending;
    }
    return 1;
}

void weft_share_gpu(int is_shared) { is_alone = !is_shared; }

void weft_turn_begins(int64_t now)
{
    poll_segments(now);
    is_first = 1;
    streams = 0;
    last_end = 0;
}

static int is_sure(const struct segment *one)
{
    for (int i = 0; i < one->kinds; i++)
        if (kernels[one->entry[i]].seen < 3 || kernels[one->entry[i]].error > SURE)
            return 0;
    return streams < 2 && (one->has_start || last_end);
}

/* All but the last segment, then that one: to its end, or nearly, if its end is known. */
static int64_t drain_segments(pthread_mutex_t *lock)
{
    int64_t now;
    while (first < next) {
        struct segment *last = &ring[first % SEGMENTS];
        if (next - first == 1 && is_sure(last)) {
            last->is_measured = 0; /* another process will be at work before it ends */
            if (busy_until - LEAD > (now = weft_now()))
                sleep_until(busy_until - LEAD, lock);
            return weft_queued(weft_now());
        }
        uint64_t number = first;
        CUevent event = last->end;
        pthread_mutex_unlock(lock);
        weft_real.cuEventSynchronize(event);
        pthread_mutex_lock(lock);
        if (first == number && first < next) {
            retire();
            last_end = weft_now();
            busy_until = last_end + pending;
        }
    }
    return 0;
}

int64_t weft_drain(pthread_mutex_t *lock)
{
    int64_t now;
    CUcontext popped;
    if (captures || !context) { /* no call may be made, or none can: what was expected has to do */
        while ((now = weft_now()) < busy_until)
            sleep_until(busy_until, lock);
        return 0;
    }
    struct segment *open = &ring[next % SEGMENTS];
    int is_of_thread = open->count && (open->is_of_thread || open->stream == CU_STREAM_PER_THREAD);
    weft_real.cuCtxPushCurrent_v2(context);
    if (open->count && !is_of_thread)
        end_segment(weft_now());
    int64_t left = drain_segments(lock);
    if (is_of_thread || streams > 1 || ring[next % SEGMENTS].count) {
        pthread_mutex_unlock(lock);
        weft_real.cuCtxSynchronize();
        pthread_mutex_lock(lock);
        pending -= ring[next % SEGMENTS].expected;
        ring[next % SEGMENTS].expected = 0;
        ring[next % SEGMENTS].count = 0;
        left = 0;
    }
    weft_real.cuCtxPopCurrent_v2(&popped);
    if (!left && busy_until > (now = weft_now()))
        busy_until = now;
    return left;
}

void weft_stream_ends(CUstream stream)
{
    if (ring[next % SEGMENTS].count && ring[next % SEGMENTS].stream == stream)
        end_segment(weft_now());
}

void weft_waited(void)
{
    last_call = weft_now();
    poll_segments(last_call);
    if (first == next && !ring[next % SEGMENTS].count)
        busy_until = last_call;
}
