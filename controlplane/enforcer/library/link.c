/* The socket of the daemon: it lies in the folder of this container, so what connects there belongs to its share. */
#define _GNU_SOURCE
#include "weft.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int weft_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder = open(getenv("WEFT_GPU_ENFORCER"), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    /* An address has room for 107 characters, a path may have more. */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", folder);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, (struct sockaddr *)&address, sizeof address) < 0) {
        close(made);
        made = -1;
    }
    close(folder);
    return made;
}
