/*
 * A wall clock that can be set, for one process and those below it: loaded with LD_PRELOAD, it adds to the time of the
 * system what the file named by HOLDFAST_CLOCK says, eight bytes of nanoseconds. The monotonic clocks stay as they are,
 * as they do when somebody sets the clock of a machine.
 *
 * The time is asked of the kernel and not of the C library, because a search for the function there would allocate
 * memory, and some allocators ask for the time while they begin.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
/* No machine has been up for that long, so a deadline beyond it is one of the wall clock. */
#define WALL_SECONDS_MIN 1000000000LL

static const volatile int64_t *offset_file = NULL;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("HOLDFAST_CLOCK");
  if (path == NULL) return;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset_file = page;
  close(file);
}

static int64_t offset(void) { return offset_file == NULL ? 0 : *offset_file; }

static struct timespec moved(struct timespec time, int64_t by) {
  int64_t nanos = time.tv_nsec + by % SECOND;
  time.tv_sec += by / SECOND;
  if (nanos >= SECOND) {
    time.tv_sec += 1;
    nanos -= SECOND;
  } else if (nanos < 0) {
    time.tv_sec -= 1;
    nanos += SECOND;
  }
  time.tv_nsec = nanos;
  return time;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *time = moved(*time, offset());
  return result;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
  (void)zone;
  struct timespec now;
  int result = clock_gettime(CLOCK_REALTIME, &now);
  if (value != NULL) {
    value->tv_sec = now.tv_sec;
    value->tv_usec = now.tv_nsec / 1000;
  }
  return result;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != NULL) *seconds = now.tv_sec;
  return now.tv_sec;
}

/* A deadline that was made of the moved time is waited for by the kernel, which knows nothing of the move. */
static clockid_t clock_of(const struct timespec *deadline) {
  return deadline->tv_sec >= WALL_SECONDS_MIN ? CLOCK_REALTIME : CLOCK_MONOTONIC;
}

static struct timespec for_kernel(const struct timespec *deadline) {
  return clock_of(deadline) == CLOCK_REALTIME ? moved(*deadline, -offset()) : *deadline;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
  struct timespec until = for_kernel(deadline);
  return pthread_cond_clockwait(cond, mutex, clock_of(deadline), &until);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline) {
  struct timespec until = for_kernel(deadline);
  return pthread_mutex_clocklock(mutex, clock_of(deadline), &until);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
  struct timespec until = for_kernel(deadline);
  return sem_clockwait(semaphore, clock_of(deadline), &until);
}
