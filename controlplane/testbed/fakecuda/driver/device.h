/* One simulated GPU, in a file that all processes on it map.
 *
 * A kernel is a length of time. Each process has one queue, whatever its streams; processes with work take turns
 * of 2 ms, and a turn ends in the middle of a kernel if need be. No thread plays the GPU: the process that looks
 * first brings it up to the present moment, so it costs no processor time of its own, and a killed process leaves
 * nothing behind. */
#ifndef FAKECUDA_DEVICE_H
#define FAKECUDA_DEVICE_H

#include <pthread.h>
#include <stdint.h>

#define FAKE_MAGIC 0x77656674u
#define FAKE_PROCESSES 32
#define FAKE_RING 1024 /* kernels that a process may have in its queue; a launch waits beyond it, as under a real driver */
#define FAKE_EVENTS 4096
#define FAKE_SLICE 2000000ull /* ns */

struct fake_entry {
    uint64_t left; /* ns; 0: a mark of an event */
    int32_t event; /* -1: a kernel */
    int32_t unused;
};

struct fake_process {
    uint32_t lives;
    uint32_t pid;
    char group[32]; /* FAKECUDA_GROUP: whose memory is summed */
    uint64_t used;  /* ns of the GPU */
    uint64_t launched;
    uint64_t memory;
    uint64_t pushed, done; /* entries so far */
    uint64_t waiting;      /* ns in the queue */
    struct fake_entry ring[FAKE_RING];
    uint64_t event_at[FAKE_EVENTS]; /* when each was last reached */
};

struct fake_group {
    char name[32];
    uint64_t peak; /* the most memory that its processes had together */
};

struct fake_device {
    uint32_t magic;
    uint32_t unused;
    pthread_mutex_t lock; /* robust */
    uint64_t memory, taken;
    uint64_t at;   /* ns: up to when it has been played */
    uint64_t busy; /* ns */
    uint64_t looked; /* when dead processes were last looked for */
    int32_t current;
    int32_t unused_too;
    uint64_t slice; /* ns that are left of the turn */
    struct fake_group groups[FAKE_PROCESSES];
    struct fake_process processes[FAKE_PROCESSES];
};

uint64_t fake_now(void);
int fake_join(void);   /* 0, or -1: no device */
int fake_joined(void); /* whether this process has */
uint64_t fake_push(uint64_t ns, int event); /* the number of the entry; waits while the queue is full */
int fake_is_done(uint64_t entry);
void fake_wait(uint64_t entry);
uint64_t fake_pushed(void);
uint64_t fake_event_at(int event);
int fake_take(uint64_t bytes); /* 0, or -1: the device has not so much */
void fake_give(uint64_t bytes);
void fake_memory(uint64_t *free, uint64_t *total);

/* For those that watch a device and do not use one: played up to now. */
struct fake_sample {
    uint64_t at, busy, taken;
    uint64_t used[FAKE_PROCESSES], launched[FAKE_PROCESSES], memory[FAKE_PROCESSES];
    uint32_t pid[FAKE_PROCESSES], lives[FAKE_PROCESSES];
    struct fake_group groups[FAKE_PROCESSES];
};
int fakecuda_sample(const char *path, struct fake_sample *into); /* 0, or -1: no device */

#endif
