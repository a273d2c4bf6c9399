#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace accrue::memory {

/// Names the failure if the disk cannot give back a page of a mapped file that a computation
/// touches. The kernel then sends SIGBUS, which ends a process without a word. While the object
/// exists, such an access within its addresses writes the message to standard error and ends the
/// process with exit status 1. A SIGBUS of any other address has its previous effect.
///
/// One object may exist at a time.
class UnreadablePages {
 public:
  /// `message` is a whole line.
  UnreadablePages(const std::byte* begin, std::size_t bytes, std::string message);
  ~UnreadablePages();
  UnreadablePages(const UnreadablePages&) = delete;
  UnreadablePages& operator=(const UnreadablePages&) = delete;

 private:
  static void on_signal(int signal, siginfo_t* cause, void* context);

  const std::byte* begin_;
  const std::byte* end_;
  std::string message_;
  struct sigaction previous_ {};
};

}  // namespace accrue::memory
