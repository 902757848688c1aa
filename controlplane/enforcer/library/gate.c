/* The gate: a launch passes while this process has the token. One thread of ours hears the daemon and gives the token
 * up.
 *
 * Without a daemon for 0.4 s everything passes, until there is one again: time is advisory then, memory is not. */
#define _GNU_SOURCE
#include "weft.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IDLE (1500 * US)        /* with nothing to launch for so long the token is given up, if another waits */
#define IDLE_ALONE (20 * MS)    /* and if none does */
#define AGAIN (3 * MS)          /* a program that launched something so lately will again */
#define PATIENCE (400 * MS)     /* without a daemon */
#define RECONNECT (20 * MS)
#define SILENCE (1000 * MS)     /* one that waits for an answer asks after so long whether the daemon still lives */

enum phase { NONE, ASKED, HELD, ENDING, OPEN };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum phase phase;
static int is_started, daemon_socket = -1, bell = -1;
static int waiting;        /* threads at the gate */
static int is_linked;      /* the daemon knows us */
static int64_t lost_at;    /* since when it does not */
static int64_t heard_at, pinged_at; /* when it last said something; since when it owes an answer, 0: it does not */
static int64_t granted_at, quota_end, most_end; /* most_end 0: none */
static int is_contended, has_asked_more, wants_end, launches; /* of this turn */

static void *serve(void *unused);

static void forget(void)
{
    if (daemon_socket >= 0)
        close(daemon_socket);
    if (bell >= 0)
        close(bell);
    daemon_socket = bell = -1;
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&changed, NULL);
    phase = NONE;
    is_started = is_linked = waiting = 0;
    weft_pace_forked();
}

/* Under the lock. */
static void start(void)
{
    static int is_registered;
    sigset_t all, before;
    pthread_t thread;
    pthread_attr_t how;
    is_started = 1;
    lost_at = weft_now();
    bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!is_registered++)
        pthread_atfork(NULL, NULL, forget);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    if (!weft_page_open() || pthread_create(&thread, &how, serve, NULL)) {
        phase = OPEN;
        weft_share_gpu(1);
    }
    pthread_attr_destroy(&how);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void tell(uint32_t kind, uint32_t flag, int64_t one)
{
    weft_message message = {kind, flag, one, 0};
    if (daemon_socket >= 0)
        send(daemon_socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void ring_bell(void)
{
    uint64_t one = 1;
    if (write(bell, &one, sizeof one) < 0) { /* it rings already */
    }
}

/* Whether a kernel may be launched in this turn. If not, what has to happen has been asked for. */
static int fits_turn(int64_t now, int64_t expected)
{
    int64_t end = now + weft_queued(now) + expected;
    if (!launches)
        return 1; /* or a kernel longer than its quota would never run */
    if (most_end && end > most_end) {
        wants_end = 1;
        ring_bell();
        return 0;
    }
    if (!is_contended || end <= quota_end)
        return 1;
    if (!has_asked_more) {
        has_asked_more = 1;
        tell(MORE, 0, weft_queued(now) / US);
    }
    return 0;
}

/* Under the lock; when it returns a launch may follow. */
static int64_t wait_for_turn(int64_t now, int64_t expected)
{
    for (;;) {
        if (phase == HELD || phase == OPEN) {
            if (weft_queued(now) + expected > weft_most_queued(now) && weft_wait_oldest(&mutex)) {
                if (weft_is_capturing())
                    pthread_cond_broadcast(&changed);
                now = weft_now();
                continue;
            }
            if (phase == OPEN || fits_turn(now, expected))
                return now;
        } else if (phase == NONE && is_linked) {
            phase = ASKED;
            tell(ASK, 0, 0);
        }
        waiting++;
        pthread_cond_wait(&changed, &mutex);
        waiting--;
        now = weft_now();
    }
}

static int is_captured(CUstream stream)
{
    int is_capturing = 0;
    return weft_is_capturing() && weft_real.cuStreamIsCapturing &&
           weft_real.cuStreamIsCapturing(stream, &is_capturing) == CUDA_SUCCESS && is_capturing;
}

int weft_gate_opens(CUfunction function, uint64_t blocks, CUstream stream, int is_of_thread)
{
    int entry;
    if (!weft_is_wanted() || is_captured(stream))
        return 0;
    int64_t now = weft_now();
    pthread_mutex_lock(&mutex);
    if (!is_started)
        start();
    weft_called(now);
    int64_t expected = weft_expect(function, blocks, &entry);
    now = wait_for_turn(now, expected);
    launches++;
    weft_launched(now, expected, entry, stream, is_of_thread);
    return 1; /* with the lock: the token may not be given up between here and the launch */
}

void weft_gate_shuts(void)
{
    weft_close_segment();
    pthread_mutex_unlock(&mutex);
}

/* What is on demand has no room on its GPU before the daemon has made some: so an allocation waits as a launch does. */
void weft_gate_arrive(void)
{
    if (!weft_is_on_demand() || weft_is_capturing())
        return;
    int64_t now = weft_now();
    pthread_mutex_lock(&mutex);
    if (!is_started)
        start();
    weft_called(now);
    wait_for_turn(now, 0);
    pthread_mutex_unlock(&mutex);
}

void weft_before_wait(void)
{
    if (!is_started)
        return;
    pthread_mutex_lock(&mutex);
    weft_end_segment();
    pthread_mutex_unlock(&mutex);
}

void weft_after_wait(void)
{
    if (!is_started)
        return;
    pthread_mutex_lock(&mutex);
    weft_waited();
    pthread_mutex_unlock(&mutex);
}

void weft_on_destroyed(CUstream stream)
{
    if (!is_started)
        return;
    pthread_mutex_lock(&mutex);
    if (stream)
        weft_stream_ends(stream);
    else
        weft_pace_forget();
    pthread_mutex_unlock(&mutex);
}

void weft_on_capture(int change)
{
    pthread_mutex_lock(&mutex);
    weft_captures(change); /* first, so that no thread begins to wait for an event */
    while (change > 0 && (phase == ENDING || weft_is_waiting()))
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* What follows is the thread's. Under the lock, but for what it waits for. */
static void end_turn(int is_idle)
{
    phase = ENDING;
    int64_t left = weft_drain(&mutex);
    int asks = waiting > 0 || (!is_idle && weft_now() - weft_last_call() < AGAIN);
    phase = asks ? ASKED : NONE;
    wants_end = 0;
    tell(GIVE, (uint32_t)asks, left / US);
    pthread_cond_broadcast(&changed);
}

static void begin_turn(const weft_message *grant)
{
    int64_t now = weft_now();
    if (phase != ASKED && phase != HELD) { /* nothing was asked for */
        tell(GIVE, 0, 0);
        return;
    }
    if (phase == ASKED) {
        weft_turn_begins(now);
        granted_at = now;
        launches = 0;
    }
    phase = HELD;
    is_contended = (int)grant->flag;
    has_asked_more = wants_end = 0;
    quota_end = now + weft_queued(now) + grant->one * US;
    most_end = grant->two ? now + grant->two * US : 0;
    pthread_cond_broadcast(&changed);
}

static void hear(const weft_message *message)
{
    heard_at = weft_now();
    pinged_at = 0;
    if (message->kind == WELCOME) {
        is_linked = 1;
        phase = NONE;
        weft_share_gpu(0);
        weft_show_mode(1);
        pthread_cond_broadcast(&changed);
    } else if (message->kind == GRANT) {
        begin_turn(message);
    } else if (message->kind == CONTENDED) {
        is_contended = (int)message->flag;
    } else if (message->kind == REVOKE && phase == HELD) {
        end_turn(0);
    }
}

static void lose(void)
{
    if (daemon_socket >= 0)
        close(daemon_socket);
    daemon_socket = -1;
    if (is_linked)
        lost_at = weft_now();
    is_linked = is_contended = has_asked_more = wants_end = 0;
    most_end = 0;
    if (phase == ASKED)
        phase = NONE;
    pthread_cond_broadcast(&changed); /* one that waits for more of its quota goes on */
}

static void open_gate(void)
{
    if (phase == OPEN || weft_now() - lost_at < PATIENCE)
        return;
    phase = OPEN;
    weft_share_gpu(1); /* the queue stays short all the same: a daemon that comes finds little of it */
    weft_show_mode(0);
    pthread_cond_broadcast(&changed);
}

/* When a daemon that says nothing is taken for one that hangs, or asked whether it does; 0: nothing is waited for. */
static int64_t silent_at(void)
{
    if (!is_linked)
        return heard_at + PATIENCE;
    if (pinged_at)
        return pinged_at + PATIENCE;
    return phase == ASKED || has_asked_more ? heard_at + SILENCE : 0;
}

static void mind_silence(void)
{
    int64_t now = weft_now(), at = silent_at();
    if (daemon_socket < 0 || !at || now < at)
        return;
    if (!is_linked) {
        open_gate();
        heard_at = now; /* it is waited for on */
    } else if (pinged_at) {
        lose();
    } else {
        pinged_at = now;
        tell(PING, 0, 0);
    }
}

/* When the token is to be given up if nothing is launched until then; 0: not at all. */
static int64_t idle_at(int64_t now)
{
    int64_t since = now + weft_queued(now);
    if (phase != HELD)
        return 0;
    if (waiting) /* or just let through */
        return now + IDLE;
    if (weft_queued(now) == 0) {
        since = weft_last_call() > granted_at ? weft_last_call() : granted_at;
        since = weft_busy_until() > since ? weft_busy_until() : since;
    }
    return since + (is_contended || most_end ? IDLE : IDLE_ALONE);
}

static int64_t next_look(int64_t now)
{
    int64_t at = idle_at(now);
    if (phase == HELD && most_end && (!at || most_end < at))
        at = most_end;
    int64_t silent = silent_at();
    return silent && (!at || silent < at) ? silent : at;
}

/* Give the token up if it is time to. */
static void look(void)
{
    int64_t now = weft_now(), at;
    if (phase != HELD)
        return;
    if (wants_end || (most_end && now >= most_end)) {
        end_turn(0);
        return;
    }
    at = idle_at(now);
    if (at && now >= at) {
        weft_look(now);
        if (idle_at(now) <= now)
            end_turn(1);
    }
}

static void listen_to_daemon(void)
{
    weft_message message;
    uint64_t rung;
    pthread_mutex_lock(&mutex);
    int64_t now = weft_now(), at = next_look(now);
    pthread_mutex_unlock(&mutex);
    int64_t left = at > now ? at - now : 0;
    struct timespec length = {left / 1000000000, left % 1000000000};
    struct pollfd both[2] = {{daemon_socket, POLLIN, 0}, {bell, POLLIN, 0}};
    ppoll(both, 2, at ? &length : NULL, NULL);
    if (both[1].revents && read(bell, &rung, sizeof rung) < 0) { /* it was read already */
    }
    pthread_mutex_lock(&mutex);
    for (;;) {
        ssize_t size = recv(daemon_socket, &message, sizeof message, MSG_DONTWAIT);
        if (size == (ssize_t)sizeof message) {
            hear(&message);
        } else if (size >= 0 || (errno != EAGAIN && errno != EINTR)) {
            lose();
            break;
        } else if (errno == EAGAIN) {
            break;
        }
    }
    look();
    mind_silence();
    pthread_mutex_unlock(&mutex);
}

static void *serve(void *unused)
{
    prctl(PR_SET_NAME, "weft-gpu", 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); /* ns: a hand-over is a few hundred us */
    for (;;) {
        if (daemon_socket >= 0) {
            listen_to_daemon();
            continue;
        }
        int made = weft_connect();
        pthread_mutex_lock(&mutex);
        daemon_socket = made;
        heard_at = weft_now();
        pinged_at = 0;
        if (made >= 0)
            tell(HELLO, (uint32_t)weft_slot(), 1);
        else
            open_gate();
        pthread_mutex_unlock(&mutex);
        if (made < 0) {
            struct timespec length = {0, RECONNECT};
            nanosleep(&length, NULL);
        }
    }
    return unused;
}
