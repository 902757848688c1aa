/* The parts of the library, and what they ask of each other.
 *
 * find.c hands out our functions in place of the driver's. Those are in run.c (kernels, waits) and memory.c. A
 * launch goes through gate.c, which lets it pass while this process has the token; pace.c says how much of the GPU's
 * time is queued; link.c speaks to the daemon; page.c counts the memory of all processes of the share. What each
 * guarantees, and what not: docs/shared-gpus.md. */
#ifndef WEFT_H
#define WEFT_H

#include "driver.h"

#include <pthread.h>
#include <stdint.h>

#define VISIBLE __attribute__((visibility("default")))
#define US 1000ll
#define MS 1000000ll

/* find.c */
typedef struct {
#define FIELD(name, base, version, is_of_thread, arguments) CUresult(*name) arguments;
#define CALLED(name, arguments) CUresult(*name) arguments;
    WEFT_STOOD_IN_FOR(FIELD) WEFT_CALLED(CALLED)
#undef FIELD
#undef CALLED
} weft_driver;
extern weft_driver weft_real; /* the driver's own functions; NULL: it has none of that name */
VISIBLE int weft_gpu_version(void);
void *weft_dlsym(void *library, const char *name); /* the C library's own */
int weft_find(void);          /* fill weft_real; 0 if there is no driver */

/* nvml.c */
void *weft_nvml(void *found); /* ours in place of the management library's function at this address */

/* page.c: memory. Sizes in bytes. */
int weft_page_open(void);              /* of WEFT_GPU_ENFORCER; 0: no such page, and nothing may be had */
int weft_is_wanted(void);              /* whether this process is in a container with a share */
int weft_reserve(uint64_t size);       /* 0: the share has not so much left */
void weft_unreserve(uint64_t size);
void weft_usage(uint64_t *used, uint64_t *limit);
void weft_show_mode(int is_enforced);  /* for people: whether our time is held to the share */
int weft_is_on_demand(void);           /* whether it has a GPU only while it has something to do there */
int weft_slot(void);                   /* which slot of the page is ours; -1: none yet */

/* pace.c: under the gate's lock. Times in ns of weft_now(). */
int64_t weft_now(void);
void weft_pace_forget(void);               /* nothing is queued */
void weft_pace_forked(void);               /* this is a child with none of the threads */
int64_t weft_expect(CUfunction function, uint64_t blocks, int *entry);
void weft_called(int64_t now);             /* the program comes to launch something */
int64_t weft_last_call(void);
int64_t weft_queued(int64_t now);          /* how long what was launched will still run */
int64_t weft_busy_until(void);
int64_t weft_most_queued(int64_t now);     /* how much may be */
void weft_launched(int64_t now, int64_t expected, int entry, CUstream stream, int is_of_thread);
void weft_close_segment(void);             /* an event after what was launched, if it is much */
void weft_end_segment(void);               /* in any case */
int weft_wait_oldest(pthread_mutex_t *lock); /* until the first event; 0: there is none. Lets the lock go meanwhile */
void weft_look(int64_t now);               /* take note of what has ended */
void weft_turn_begins(int64_t now);
void weft_share_gpu(int is_shared);        /* whether others may compute at the same time, as without a daemon */
int64_t weft_drain(pthread_mutex_t *lock); /* until nothing is queued, but for what is known to go on for a moment: ns */
void weft_stream_ends(CUstream stream);
void weft_waited(void);                    /* the program has waited for the GPU */
void weft_captures(int change);
int weft_is_capturing(void);
int weft_is_waiting(void);                 /* whether a thread waits for an event */

/* gate.c */
int weft_gate_opens(CUfunction function, uint64_t blocks, CUstream stream, int is_of_thread); /* 1: launch, and then */
void weft_gate_shuts(void);
void weft_gate_arrive(void); /* on demand: wait until there is a GPU that has room for us */
void weft_before_wait(void);
void weft_after_wait(void);
void weft_on_destroyed(CUstream stream); /* NULL: a context */
void weft_on_capture(int change);

/* link.c: messages of 24 bytes each, both ways. */
enum { HELLO = 1, ASK, MORE, GIVE, PING };              /* ours */
enum { WELCOME = 101, GRANT, REVOKE, CONTENDED, PONG }; /* the daemon's */
typedef struct {
    uint32_t kind;
    uint32_t flag; /* HELLO: slot. GIVE: asks again. GRANT, CONTENDED: whether another waits */
    int64_t one;   /* us. HELLO: version. MORE, GIVE: what is queued. GRANT: quota */
    int64_t two;   /* us. GRANT: the most, 0: no end */
} weft_message;
int weft_connect(void); /* a socket, or -1 */

#endif
