/* The memory of a share: one file that all its processes map, with a slot for each process.
 *
 * A slot says what its process has; the sum is what the share has. Sums are made under one lock of the file, and
 * each process holds another one on its slot for as long as it lives. The kernel gives locks back when a process
 * ends, however it ends, so what a dead one had is found by its unlocked slot, and it needs no daemon for that. */
#define _GNU_SOURCE
#include "weft.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 256, MAGIC = 0x74667765, VERSION = 1, LEDGER = 1 << 20 }; /* LEDGER: byte of the lock; slots follow it */

struct slot {
    _Atomic uint64_t used, most, refused;
    _Atomic uint32_t mode, pid; /* mode: 0 not asked for time yet, 1 held to its share, 2 not: advisory */
};
struct page { /* controlplane/enforcer/page.py says the same */
    uint32_t magic, version;
    _Atomic uint64_t limit;
    _Atomic uint32_t guarantee, most;
    _Atomic uint64_t on_demand; /* 1: a notebook that has a GPU only while it has something to do there */
    struct slot slots[SLOTS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct page *page;
static int file = -1, mine = -1;

int weft_is_wanted(void)
{
    static int wanted = -1;
    if (wanted < 0)
        wanted = getenv("WEFT_GPU_ENFORCER") != NULL;
    return wanted;
}

static int lock_byte(int command, int type, int number, struct flock *told)
{
    *told = (struct flock){.l_type = (short)type, .l_whence = SEEK_SET, .l_start = LEDGER + number, .l_len = 1};
    return fcntl(file, command, told);
}

/* After a fork the child has no slot, and none of our threads: it begins anew. Its parent keeps its locks. */
static void forget(void)
{
    if (file >= 0)
        close(file);
    file = mine = -1;
    page = NULL;
    pthread_mutex_init(&mutex, NULL);
}

static int fails(const char *path)
{
    static int told;
    if (!told++)
        fprintf(stderr, "weft: %s is not the page of a share, so no GPU memory can be had here\n", path);
    if (file >= 0)
        close(file);
    file = -1;
    return 0;
}

static int map(void)
{
    static int registered;
    char path[512];
    struct stat seen;
    snprintf(path, sizeof path, "%s/page", getenv("WEFT_GPU_ENFORCER"));
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &seen) < 0 || seen.st_size < (off_t)sizeof *page)
        return fails(path);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED || page->magic != MAGIC || page->version != VERSION)
        return page = NULL, fails(path);
    if (!registered++)
        pthread_atfork(NULL, NULL, forget);
    return 1;
}

static void lock(void)
{
    struct flock told;
    pthread_mutex_lock(&mutex);
    if (page)
        while (lock_byte(F_SETLKW, F_WRLCK, 0, &told) < 0) {
        }
}

static void unlock(void)
{
    struct flock told;
    if (page)
        lock_byte(F_SETLK, F_UNLCK, 0, &told);
    pthread_mutex_unlock(&mutex);
}

/* Under the lock: take a slot that no living process has. */
static void take_slot(void)
{
    struct flock told;
    for (int i = 0; mine < 0 && i < SLOTS; i++) {
        if (lock_byte(F_SETLK, F_WRLCK, 1 + i, &told) < 0)
            continue;
        memset((void *)&page->slots[i], 0, sizeof page->slots[i]);
        page->slots[i].pid = (uint32_t)getpid();
        mine = i;
    }
}

int weft_page_open(void)
{
    if (mine >= 0)
        return 1;
    pthread_mutex_lock(&mutex);
    int is_there = page || map();
    pthread_mutex_unlock(&mutex);
    if (!is_there)
        return 0;
    lock();
    take_slot();
    unlock();
    return mine >= 0;
}

int weft_slot(void) { return mine; }

static uint64_t sum(void)
{
    uint64_t all = 0;
    for (int i = 0; i < SLOTS; i++)
        all += page->slots[i].used;
    return all;
}

/* Under the lock: what dead processes had is free. */
static void clear_dead(void)
{
    struct flock told;
    for (int i = 0; i < SLOTS; i++)
        if (i != mine && page->slots[i].used && !lock_byte(F_GETLK, F_WRLCK, 1 + i, &told) && told.l_type == F_UNLCK)
            page->slots[i].used = 0;
}

int weft_reserve(uint64_t size)
{
    if (!weft_page_open())
        return 0;
    lock();
    struct slot *slot = &page->slots[mine];
    uint64_t limit = page->limit;
    if (size > limit || sum() > limit - size)
        clear_dead();
    int fits = size <= limit && sum() <= limit - size;
    if (fits)
        slot->used += size;
    else
        slot->refused++;
    if (slot->used > slot->most)
        slot->most = slot->used;
    unlock();
    return fits;
}

void weft_unreserve(uint64_t size)
{
    if (mine < 0)
        return;
    uint64_t used = page->slots[mine].used, left;
    do
        left = used > size ? used - size : 0;
    while (!atomic_compare_exchange_weak(&page->slots[mine].used, &used, left));
}

void weft_usage(uint64_t *used, uint64_t *limit)
{
    lock();
    clear_dead();
    *used = sum();
    *limit = page->limit;
    unlock();
}

int weft_is_on_demand(void) { return weft_page_open() && page->on_demand; }

void weft_show_mode(int is_enforced)
{
    if (weft_page_open())
        page->slots[mine].mode = is_enforced ? 1 : 2;
}
