/* weft-gpu-run PROGRAM ARGUMENTS: start a program that is held to its share of a GPU, or say why it cannot be.
 *
 * The loader only warns of a library that it cannot preload, and the program would run with the whole GPU. So it
 * is tried first, with a program of ours that looks whether it is there. Linked statically: it also runs in an image
 * without glibc, and says so. Without a program it only looks. WEFT_GPU_ENFORCER_PATIENCE: for so many seconds it waits
 * for the share to be served, where a container may start before it is. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* As `env` and container engines have it: the program was not started. The other: for want of the node's daemon. */
enum { CANNOT = 125, UNSERVED = 124 };

__attribute__((format(printf, 2, 3))) static int fails(int code, const char *form, ...)
{
    va_list given;
    va_start(given, form);
    fputs("weft: not started: ", stderr);
    vfprintf(stderr, form, given);
    fputc('\n', stderr);
    va_end(given);
    return code;
}

static int connects(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), there = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* As library/link.c does: an address has less room than a path. */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", there);
    int connected = made >= 0 && connect(made, (struct sockaddr *)&address, sizeof address) == 0;
    close(made);
    close(there);
    return connected;
}

/* What the probe and the loader said, on one line; "": the library is there. */
static char *probe(const char *program)
{
    static char said[1024];
    int ends[2], status;
    if (pipe(ends) < 0)
        return strerror(errno);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        execl(program, program, NULL);
        dprintf(2, "%s%s", strerror(errno), errno == ENOENT ? " (this image has no glibc)" : "");
        _exit(CANNOT);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length < sizeof said - 1 && (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)got;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return strerror(errno);
    for (char *one = said; *one; one++)
        *one = *one == '\n' ? ' ' : *one;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return "";
    return length ? said : "it is not there after the start of a program";
}

/* Whether the share is served: its page is there, and its daemon answers; within its patience. */
static int is_served(const char *folder, const char *page)
{
    const char *patience = getenv("WEFT_GPU_ENFORCER_PATIENCE");
    const struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    for (long left = 50 * (patience ? strtol(patience, NULL, 10) : 0);; left--) {
        if (access(page, R_OK | W_OK) == 0 && connects(folder))
            return 1;
        if (left <= 0)
            return 0;
        nanosleep(&moment, NULL);
    }
}

int main(int count, char **given)
{
    char here[PATH_MAX], library[PATH_MAX + 32], program[PATH_MAX + 32], page[PATH_MAX + 32];
    const char *folder = getenv("WEFT_GPU_ENFORCER"), *before = getenv("LD_PRELOAD");
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (!folder)
        return fails(CANNOT, "WEFT_GPU_ENFORCER does not name the folder of this container's share");
    if (length < 0)
        return fails(CANNOT, "/proc/self/exe: %s", strerror(errno));
    here[length] = 0;
    *strrchr(here, '/') = 0;
    snprintf(library, sizeof library, "%s/libweft-gpu.so", here);
    snprintf(program, sizeof program, "%s/weft-gpu-probe", here);
    snprintf(page, sizeof page, "%s/page", folder);
    if (!is_served(folder, page) && access(page, R_OK | W_OK) < 0)
        return fails(UNSERVED, "%s: %s", page, strerror(errno));
    if (!connects(folder))
        return fails(UNSERVED, "the daemon of this node does not answer at %s/socket", folder);
    char *all = NULL;
    if (asprintf(&all, "%s%s%s", library, before ? ":" : "", before ? before : "") < 0 ||
        setenv("LD_PRELOAD", all, 1) < 0)
        return fails(CANNOT, "%s", strerror(errno));
    const char *why = probe(program);
    if (*why)
        return fails(CANNOT, "%s cannot be loaded here: %s", library, why);
    if (count < 2)
        return 0;
    execvp(given[1], given + 1);
    return fails(CANNOT, "%s: %s", given[1], strerror(errno));
}
