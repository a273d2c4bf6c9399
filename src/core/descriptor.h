#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace accrue {

/// Owns a file descriptor, and closes it. Closing does not change errno, which may hold the reason
/// for giving up the descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  /// A negative number stands for none, as returned by system calls.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = other.release();
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void reset() noexcept {
    if (number_ < 0) return;
    const int reason = errno;
    ::close(release());
    errno = reason;
  }

 private:
  int number_ = -1;
};

}  // namespace accrue
