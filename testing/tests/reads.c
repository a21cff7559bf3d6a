/* What a process reads of files, as its kernel is asked for it: a line `INODE OFFSET LENGTH` for
   each read, appended to the file that READS_LOG names. Loaded into an engine before the C library
   (LD_PRELOAD) by wiretap.py; test code. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int out = -1;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_log(void) {
  const char *path = getenv("READS_LOG");
  if (path) out = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void note(int file, off64_t offset, ssize_t length) {
  struct stat64 of;
  char line[96];
  pthread_once(&opened, open_log);
  if (out < 0 || length <= 0 || offset < 0) return;
  if (fstat64(file, &of) != 0 || !S_ISREG(of.st_mode)) return;
  int size = snprintf(line, sizeof line, "%llu %lld %zd\n", (unsigned long long)of.st_ino,
                      (long long)offset, length);
  if (write(out, line, (size_t)size) != size) abort();
}

ssize_t pread64(int file, void *into, size_t most, off64_t offset) {
  static ssize_t (*real)(int, void *, size_t, off64_t);
  if (!real) real = dlsym(RTLD_NEXT, "pread64");
  ssize_t length = real(file, into, most, offset);
  note(file, offset, length);
  return length;
}

ssize_t pread(int file, void *into, size_t most, off_t offset) {
  return pread64(file, into, most, offset);
}

ssize_t read(int file, void *into, size_t most) {
  static ssize_t (*real)(int, void *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "read");
  ssize_t length = real(file, into, most);
  /* Of sockets and pipes there is no offset. */
  if (length > 0) note(file, lseek64(file, 0, SEEK_CUR) - length, length);
  return length;
}
