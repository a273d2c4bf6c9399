#pragma once

#include <netdb.h>
#include <unistd.h>

#include <utility>

namespace accrue::distributed {

/// Owns a descriptor, and closes it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  /// For streams to or from `address`, with `flags` of ::socket() beside; none, with errno, where
  /// the system gives none.
  explicit Socket(const addrinfo& address, int flags = 0);
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = other.release();
    }
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }  ///< -1: none
  explicit operator bool() const { return descriptor_ >= 0; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  /// Leaves errno as it is, which tells why a socket is given up.
  void close() noexcept;

  int descriptor_ = -1;
};

}  // namespace accrue::distributed
