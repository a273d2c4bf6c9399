#include "memory/unreadable_pages.h"

#include <unistd.h>

#include <atomic>
#include <utility>

namespace accrue::memory {
namespace {

// A signal handler can only access statics; this takes no lock.
std::atomic<const UnreadablePages*> watched_for_bus{nullptr}, watched_for_protection{nullptr};
static_assert(std::atomic<const UnreadablePages*>::is_always_lock_free);

std::atomic<const UnreadablePages*>& watched(int signal) {
  return signal == SIGBUS ? watched_for_bus : watched_for_protection;
}

}  // namespace

UnreadablePages::UnreadablePages(int signal, const std::byte* begin, std::size_t bytes,
                                 std::string message)
    : signal_(signal), begin_(begin), end_(begin + bytes), message_(std::move(message)) {
  watched(signal_) = this;
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal_, &action, &previous_);
}

UnreadablePages::~UnreadablePages() {
  ::sigaction(signal_, &previous_, nullptr);
  watched(signal_) = nullptr;
}

void UnreadablePages::on_signal(int signal, siginfo_t* cause, void*) {
  const UnreadablePages* const pages = watched(signal);
  const auto* const address = static_cast<const std::byte*>(cause->si_addr);
  if (pages == nullptr) {
    ::signal(signal, SIG_DFL);
    return;
  }
  if (address < pages->begin_ || address >= pages->end_) {
    ::sigaction(signal, &pages->previous_, nullptr);  // the access is repeated, and met by that
    return;
  }
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, pages->message_.data(), pages->message_.size());
  ::_exit(1);
}

}  // namespace accrue::memory
