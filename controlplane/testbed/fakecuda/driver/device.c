#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK 1000000ull       /* ns: dead processes are looked for so often */
#define SHORTEST 10000ull     /* ns: no sleep is shorter */
#define LIVES (1 << 30)       /* byte of the file that a living process has locked, with its number added */

static struct fake_device *device;
static int file = -1, me = -1;
static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;

uint64_t fake_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void lock(void)
{
    if (pthread_mutex_lock(&device->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&device->lock);
}

static void unlock(void) { pthread_mutex_unlock(&device->lock); }

static int is_dead(int number)
{
    struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LIVES + number, .l_len = 1};
    return number != me && fcntl(file, F_GETLK, &wanted) == 0 && wanted.l_type == F_UNLCK;
}

static void bury(uint64_t now)
{
    if (now - device->looked < LOOK)
        return;
    device->looked = now;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        struct fake_process *one = &device->processes[i];
        if (!one->lives || !is_dead(i))
            continue;
        device->taken -= one->memory;
        one->lives = 0;
        one->memory = one->waiting = 0;
        one->done = one->pushed;
    }
}

static int next_with_work(int after)
{
    for (int step = 1; step <= FAKE_PROCESSES; step++) {
        int number = (after + step) % FAKE_PROCESSES;
        if (device->processes[number].done < device->processes[number].pushed)
            return number;
    }
    return -1;
}

static void reach_marks(struct fake_process *one)
{
    while (one->done < one->pushed) {
        struct fake_entry *head = &one->ring[one->done % FAKE_RING];
        if (head->left)
            return;
        if (head->event >= 0)
            one->event_at[head->event] = device->at;
        one->done++;
    }
}

/* Play up to now. */
static void play(uint64_t now)
{
    bury(now);
    while (device->at < now) {
        struct fake_process *one = &device->processes[device->current];
        if (!device->slice || one->done == one->pushed) {
            int next = next_with_work(device->current);
            if (next < 0) {
                device->at = now;
                return;
            }
            device->current = next;
            device->slice = FAKE_SLICE;
            one = &device->processes[next];
        }
        reach_marks(one);
        if (one->done == one->pushed)
            continue;
        struct fake_entry *head = &one->ring[one->done % FAKE_RING];
        uint64_t run = now - device->at;
        run = run < device->slice ? run : device->slice;
        run = run < head->left ? run : head->left;
        head->left -= run;
        one->waiting -= run;
        one->used += run;
        device->busy += run;
        device->at += run;
        device->slice -= run;
        reach_marks(one);
    }
}

static int open_device(const char *path)
{
    const char *memory = getenv("FAKECUDA_MEMORY");
    if (!path || (file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666)) < 0)
        return -1;
    struct stat seen;
    flock(file, LOCK_EX);
    if (fstat(file, &seen) == 0 && seen.st_size < (off_t)sizeof *device && ftruncate(file, sizeof *device) < 0)
        return -1;
    device = mmap(NULL, sizeof *device, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (device == MAP_FAILED)
        return -1;
    if (device->magic != FAKE_MAGIC) {
        pthread_mutexattr_t how;
        pthread_mutexattr_init(&how);
        pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&device->lock, &how);
        device->memory = memory ? strtoull(memory, NULL, 10) : 16ull << 30;
        device->at = fake_now();
        device->magic = FAKE_MAGIC;
    }
    flock(file, LOCK_UN);
    return 0;
}

/* After a fork the child is no process of the device, as with a real driver. */
static void forget(void)
{
    if (file >= 0)
        close(file);
    file = me = -1;
    pthread_mutex_init(&joining, NULL);
}

static int take_place(void)
{
    const char *group = getenv("FAKECUDA_GROUP");
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        struct fake_process *one = &device->processes[i];
        struct flock mine = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LIVES + i, .l_len = 1};
        if (one->lives || fcntl(file, F_SETLK, &mine) < 0)
            continue;
        memset(one, 0, sizeof *one);
        one->pid = (uint32_t)getpid();
        strncpy(one->group, group ? group : "", sizeof one->group - 1);
        one->lives = 1;
        me = i;
        return 0;
    }
    return -1;
}

int fake_joined(void) { return me >= 0; }

int fake_join(void)
{
    int failed = 0;
    pthread_mutex_lock(&joining);
    if (me < 0 && !(failed = open_device(getenv("FAKECUDA_DEVICE")))) {
        lock();
        device->looked = 0;
        play(fake_now());
        failed = take_place();
        unlock();
        pthread_atfork(NULL, NULL, forget);
    }
    pthread_mutex_unlock(&joining);
    return failed;
}

static void sleep_for(uint64_t ns)
{
    static __thread int is_precise;
    if (!is_precise)
        is_precise = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) == 0; /* a real driver spins: neither is late by 50 us */
    struct timespec length = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
    nanosleep(&length, NULL);
}

uint64_t fake_push(uint64_t ns, int event)
{
    struct fake_process *mine = &device->processes[me];
    for (;;) {
        lock();
        play(fake_now());
        if (mine->pushed - mine->done < FAKE_RING)
            break;
        uint64_t head = mine->ring[mine->done % FAKE_RING].left;
        unlock();
        sleep_for(head > SHORTEST ? head : SHORTEST);
    }
    uint64_t number = mine->pushed++;
    mine->ring[number % FAKE_RING] = (struct fake_entry){ns, event, 0};
    mine->waiting += ns;
    mine->launched += event < 0;
    reach_marks(mine);
    unlock();
    return number;
}

uint64_t fake_pushed(void) { return device->processes[me].pushed; }

int fake_is_done(uint64_t entry)
{
    lock();
    play(fake_now());
    int done = device->processes[me].done > entry;
    unlock();
    return done;
}

void fake_wait(uint64_t entry)
{
    struct fake_process *mine = &device->processes[me];
    for (;;) {
        uint64_t left = 0;
        lock();
        play(fake_now());
        if (mine->done > entry) {
            unlock();
            return;
        }
        for (uint64_t i = mine->done; i <= entry; i++)
            left += mine->ring[i % FAKE_RING].left;
        if (device->current != me) { /* the turn of another goes first */
            uint64_t others = device->processes[device->current].waiting;
            left += others < device->slice ? others : device->slice;
        }
        unlock();
        sleep_for(left > SHORTEST ? left : SHORTEST);
    }
}

uint64_t fake_event_at(int event) { return device->processes[me].event_at[event]; }

static void note_peak(const char *name)
{
    uint64_t sum = 0;
    for (int i = 0; i < FAKE_PROCESSES; i++)
        if (device->processes[i].lives && !strcmp(device->processes[i].group, name))
            sum += device->processes[i].memory;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        struct fake_group *group = &device->groups[i];
        if (group->name[0] && strcmp(group->name, name))
            continue;
        strcpy(group->name, name);
        group->peak = sum > group->peak ? sum : group->peak;
        return;
    }
}

int fake_take(uint64_t bytes)
{
    lock();
    play(fake_now());
    int fits = bytes <= device->memory - device->taken;
    if (fits) {
        device->taken += bytes;
        device->processes[me].memory += bytes;
        if (device->processes[me].group[0])
            note_peak(device->processes[me].group);
    }
    unlock();
    return fits ? 0 : -1;
}

void fake_give(uint64_t bytes)
{
    lock();
    device->taken -= bytes;
    device->processes[me].memory -= bytes;
    unlock();
}

void fake_memory(uint64_t *free, uint64_t *total)
{
    lock();
    play(fake_now());
    *free = device->memory - device->taken;
    *total = device->memory;
    unlock();
}

int fakecuda_sample(const char *path, struct fake_sample *into)
{
    if (open_device(path))
        return -1;
    lock();
    device->looked = 0;
    play(fake_now());
    into->at = device->at;
    into->busy = device->busy;
    into->taken = device->taken;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        struct fake_process *one = &device->processes[i];
        into->used[i] = one->used;
        into->launched[i] = one->launched;
        into->memory[i] = one->memory;
        into->pid[i] = one->pid;
        into->lives[i] = one->lives;
        into->groups[i] = device->groups[i];
    }
    unlock();
    munmap(device, sizeof *device);
    close(file);
    file = -1;
    return 0;
}
