/* The first process of every pod: it holds the pod's namespaces open and reaps what its containers orphan. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_terminate(int signal) {
  (void)signal;
  _exit(0);
}

static void on_child(int signal) {
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(int argc, char **argv) {
  /* `kubeadm upgrade plan` runs the image with -v as its health check. */
  if (argc > 1 && strcmp(argv[1], "-v") == 0) {
    puts("pause " VERSION);
    return 0;
  }
  struct sigaction terminate = {.sa_handler = on_terminate};
  struct sigaction child = {.sa_handler = on_child, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGINT, &terminate, NULL) || sigaction(SIGTERM, &terminate, NULL) ||
      sigaction(SIGCHLD, &child, NULL)) {
    perror("pause: sigaction");
    return 1;
  }
  for (;;) {
    pause();
  }
}
