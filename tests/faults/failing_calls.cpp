// Faults inside a process, to be preloaded (LD_PRELOAD): calls of libc that fail, do less than
// requested, or take longer. A test orders them, at any time, in a file that both map
// (ACCRUE_FAILING_CALLS; inside.py), and reads there how often each happened. They apply to writes
// to regular files, memory that is requested from the system in blocks, and threads.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

/// In the order of inside.py.
enum Fault {
  kShortWrite,
  kFullDisk,
  kSlowDisk,
  kFlippedBit,
  kNoMemory,
  kClockJump,
  kNoThread,
  kFaults
};

/// The order for a fault, and its outcome.
struct Order {
  std::atomic<std::int64_t> left;      ///< calls that it still has to affect
  std::atomic<std::int64_t> amount;    ///< milliseconds, bytes, seconds or threads
  std::atomic<std::int64_t> happened;  ///< calls that it affected
};
static_assert(sizeof(Order) == 3 * sizeof(std::int64_t));

Order* map_orders() {
  const char* file = std::getenv("ACCRUE_FAILING_CALLS");
  const int descriptor = file == nullptr ? -1 : ::open(file, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* page =
      ::mmap(nullptr, kFaults * sizeof(Order), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  return page == MAP_FAILED ? nullptr : static_cast<Order*>(page);
}

/// Null until the library is loaded, and if there are no orders.
Order* orders = nullptr;
__attribute__((constructor)) void load() { orders = map_orders(); }

/// Takes one of the calls that a fault still has to affect.
bool strikes(Fault fault) {
  if (orders == nullptr) return false;
  Order& order = orders[fault];
  if (order.left.load(std::memory_order_relaxed) <= 0) return false;
  if (order.left.fetch_sub(1) <= 0) {
    order.left.fetch_add(1);
    return false;
  }
  order.happened.fetch_add(1);
  return true;
}

std::int64_t amount_of(Fault fault) { return orders[fault].amount.load(); }

bool is_large(std::size_t bytes) {
  return orders != nullptr && static_cast<std::int64_t>(bytes) >= amount_of(kNoMemory);
}

bool is_regular_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void wait_for_disk() {
  const std::int64_t milliseconds = amount_of(kSlowDisk);
  const timespec time{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

std::int64_t threads_of_process() {
  DIR* folder = ::opendir("/proc/self/task");
  std::int64_t entries = 0;
  while (folder != nullptr && ::readdir(folder) != nullptr) ++entries;
  if (folder != nullptr) ::closedir(folder);
  return entries - 2;  // "." and ".."
}

/// A part of tensors; only these are long.
constexpr std::size_t kLongWrite = 4096;

/// `write(data, bytes)` to a regular file, with the ordered faults.
template <class Write>
ssize_t write_badly(const void* data, std::size_t bytes, const Write& write) {
  if (strikes(kSlowDisk)) wait_for_disk();
  if (strikes(kFullDisk)) {
    errno = ENOSPC;
    return -1;
  }
  if (bytes > 1 && strikes(kShortWrite)) bytes /= 2;
  if (bytes < kLongWrite || !strikes(kFlippedBit)) return write(data, bytes);
  std::vector<unsigned char> changed(bytes);
  std::memcpy(changed.data(), data, bytes);
  changed[bytes / 2] ^= 0x10;
  return write(changed.data(), bytes);
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t bytes) {
  static const auto real = next(&::write, "write");
  const auto write_it = [descriptor](const void* from, size_t count) {
    return real(descriptor, from, count);
  };
  return orders != nullptr && is_regular_file(descriptor) ? write_badly(data, bytes, write_it)
                                                          : write_it(data, bytes);
}

int posix_memalign(void** block, size_t alignment, size_t bytes) {
  static const auto real = next(&::posix_memalign, "posix_memalign");
  if (is_large(bytes) && strikes(kNoMemory)) return ENOMEM;
  return real(block, alignment, bytes);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  static const auto real = next(&::mmap, "mmap");
  if ((flags & MAP_ANONYMOUS) != 0 && is_large(bytes) && strikes(kNoMemory)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(address, bytes, protection, flags, descriptor, offset);
}

/// Refused while the process has as many threads as a limit allows.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*),
                   void* argument) noexcept {
  static const auto real = next(&::pthread_create, "pthread_create");
  if (orders != nullptr && threads_of_process() >= amount_of(kNoThread) && strikes(kNoThread))
    return EAGAIN;
  return real(thread, attributes, routine, argument);
}

/// The wall clock is changed by all jumps so far, in either direction.
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = next(&::clock_gettime, "clock_gettime");
  static std::atomic<std::int64_t> ahead{0};
  const int result = real(clock, time);
  if (clock != CLOCK_REALTIME || result != 0) return result;
  if (strikes(kClockJump)) ahead.fetch_add(amount_of(kClockJump));
  time->tv_sec += ahead.load();
  return result;
}
}
