#include "core/signal_handling.h"

#include <cstddef>
#include <memory>

namespace accrue {
namespace {

/// Wide registers alone take eleven thousand bytes of it on some processors.
constexpr std::size_t kBytes = std::size_t{64} << 10;

class SignalStack {
 public:
  SignalStack() {
    stack_t present{};
    ::sigaltstack(nullptr, &present);
    if ((present.ss_flags & SS_DISABLE) == 0) return;
    memory_ = std::make_unique<std::byte[]>(kBytes);
    stack_t own{};
    own.ss_sp = memory_.get();
    own.ss_size = kBytes;
    if (::sigaltstack(&own, nullptr) != 0) memory_.reset();
  }
  ~SignalStack() {
    if (!memory_) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

void install_signal_stack() { thread_local const SignalStack of_this_thread; }

void handle_signal(int signal, void (*handler)(int), int flags) {
  install_signal_stack();
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace accrue
