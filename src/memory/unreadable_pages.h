#pragma once

#include <csignal>
#include <cstddef>
#include <string>

namespace accrue::memory {

/// Names the failure if a computation touches a page of a mapping whose values are not there: the
/// disk cannot give it back (the kernel sends SIGBUS), or it was taken out of memory and protected
/// (SIGSEGV). Both signals end a process without a word. While the object exists, such an access
/// within its addresses writes the message to standard error and ends the process with exit status
/// 1. The signal of any other address has its previous effect.
///
/// One object may exist at a time for each signal.
class UnreadablePages {
 public:
  /// `signal` is SIGBUS or SIGSEGV; `message` is a whole line.
  UnreadablePages(int signal, const std::byte* begin, std::size_t bytes, std::string message);
  ~UnreadablePages();
  UnreadablePages(const UnreadablePages&) = delete;
  UnreadablePages& operator=(const UnreadablePages&) = delete;

 private:
  static void on_signal(int signal, siginfo_t* cause, void* context);

  int signal_;
  const std::byte* begin_;
  const std::byte* end_;
  std::string message_;
  struct sigaction previous_ {};
};

}  // namespace accrue::memory
