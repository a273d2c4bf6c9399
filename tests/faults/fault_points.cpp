// Preloaded into a program of the tests, has faults happen at named points of its work.
//
// The points are the spans that a trace shows (accrue train --trace): RECORD_USER_SCOPE, which does
// nothing unless somebody listens. So the program that is tested is the one that is shipped.
//
//   ACCRUE_FAULT="rank=1 step=7 at=reduce:bucket do=kill; at=micro-batch count=every do=clock:0.2"
//
// Rules are separated by ';'. Each has
//   at     the span, without its spaces: "close window" is close-window, "reduce: bucket" is
//          reduce:bucket; "load" is the moment in which the program's libraries are loaded
//   do     kill, stop, TERM, INT, HUP, XCPU, USR1 or USR2: that signal, raised in the thread at the
//   point
//          tell:NAME      writes to the FIFO NAME.arrived of ACCRUE_FAULT_FOLDER
//          pause:NAME     the same, and then waits until the FIFO NAME.go is closed
//          clock:SECONDS  the steady clock jumps ahead
//          sleep:SECONDS  the thread sleeps, as on a slower machine
//          fail:CALL:ERROR
//                         the thread's next CALL (madvise, posix_fallocate, sync_file_range) fails
//                         with ERROR (EFAULT, EIO, ENOSPC), and does nothing
//   step   which step of this process the point belongs to, from 1 on; any if left out
//   count  which arrival at the point, of that step or of the process if no step is named
//          (default 1), or "every"
//   rank   only in the process whose RANK that is
// A rule that was not used when the program ends well makes it end with status 86, and so does a
// call that was to fail and was not made; a rule that sleeps may be left unused.

#include <ATen/record_function.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int kNotUsed = 86;

std::atomic<std::int64_t> nanoseconds_ahead{0};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "error: ACCRUE_FAULT: %s\n", what.c_str());
  ::_exit(2);
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::int64_t number_of(const std::string& text) {
  std::size_t end = 0;
  const std::int64_t number = std::stoll(text, &end);
  return end == text.size() ? number : throw std::invalid_argument(text);
}

struct Rule {
  std::string text, at, action, argument;
  std::int64_t step = 0;   ///< 0: any
  std::int64_t count = 1;  ///< 0: every
  std::int64_t seen = 0;   ///< arrivals, of the step if one is named
  bool used = false;
};

int signal_of(const std::string& action) {
  static const std::map<std::string, int> signals{
      {"kill", SIGKILL}, {"stop", SIGSTOP}, {"TERM", SIGTERM}, {"INT", SIGINT},
      {"HUP", SIGHUP},   {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"XCPU", SIGXCPU}};
  const auto found = signals.find(action);
  return found == signals.end() ? 0 : found->second;
}

/// The calls that can be made to fail.
enum class Call { none, madvise, posix_fallocate, sync_file_range };

struct Failure {
  Call call = Call::none;
  int error = 0;
};

/// The next call of this thread that fails.
thread_local Failure next_failure;
/// Failures that were ordered and did not happen yet.
std::atomic<int> failures_due{0};

/// The failure of "CALL:ERROR"; of no call if it cannot be read.
Failure failure_of(const std::string& argument) {
  static const std::map<std::string, Call> calls{{"madvise", Call::madvise},
                                                 {"posix_fallocate", Call::posix_fallocate},
                                                 {"sync_file_range", Call::sync_file_range}};
  static const std::map<std::string, int> errors{
      {"EFAULT", EFAULT}, {"EIO", EIO}, {"ENOSPC", ENOSPC}};
  const std::size_t colon = std::min(argument.find(':'), argument.size());
  const auto call = calls.find(argument.substr(0, colon));
  const auto error = errors.find(argument.substr(std::min(colon + 1, argument.size())));
  return call == calls.end() || error == errors.end() ? Failure{}
                                                      : Failure{call->second, error->second};
}

/// The error with which this call of the thread is to fail; 0 if it is to be made.
int error_of(Call call) {
  if (next_failure.call != call) return 0;
  const int error = next_failure.error;
  next_failure = {};
  --failures_due;
  return error;
}

bool is_known(const Rule& rule) {
  if (rule.action == "fail") return failure_of(rule.argument).call != Call::none;
  const bool takes_argument = rule.action == "tell" || rule.action == "pause" ||
                              rule.action == "clock" || rule.action == "sleep";
  return takes_argument ? !rule.argument.empty()
                        : rule.argument.empty() && signal_of(rule.action) != 0;
}

/// Null if the rule is for another rank.
std::unique_ptr<Rule> rule_of(const std::string& text) {
  auto rule = std::make_unique<Rule>();
  rule->text = text;
  bool is_here = true;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (key == "at") {
      rule->at = value;
    } else if (key == "do") {
      const std::size_t colon = value.find(':');
      rule->action = value.substr(0, colon);
      if (colon != std::string::npos) rule->argument = value.substr(colon + 1);
    } else if (key == "step") {
      rule->step = number_of(value);
    } else if (key == "count") {
      rule->count = value == "every" ? 0 : number_of(value);
    } else if (key == "rank") {
      is_here = value == variable("RANK");
    } else {
      refuse("expected at, do, step, count or rank, received '" + word + "'");
    }
  }
  if (rule->at.empty() || !is_known(*rule)) refuse("cannot read '" + text + "'");
  return is_here ? std::move(rule) : nullptr;
}

/// "close window" as close-window, "reduce: bucket" as reduce:bucket.
std::string point_of(std::string_view span) {
  std::string point;
  for (const char letter : span) {
    if (letter != ' ')
      point += letter;
    else if (!point.ends_with(':'))
      point += '-';
  }
  return point;
}

std::string fifo(const Rule& rule, const char* end) {
  return std::string(variable("ACCRUE_FAULT_FOLDER")) + "/" + rule.argument + end;
}

void tell(const Rule& rule) {
  const int out = ::open(fifo(rule, ".arrived").c_str(), O_WRONLY | O_CLOEXEC);
  if (out < 0 || ::write(out, "!", 1) != 1) refuse("nobody listens to '" + rule.text + "'");
  ::close(out);
}

void wait_for_go(const Rule& rule) {
  const int in = ::open(fifo(rule, ".go").c_str(), O_RDONLY | O_CLOEXEC);
  char byte = 0;
  while (::read(in, &byte, 1) > 0) {
  }
  ::close(in);
}

void act(const Rule& rule) {
  if (const int signal = signal_of(rule.action); signal != 0) {
    ::raise(signal);
  } else if (rule.action == "fail") {
    next_failure = failure_of(rule.argument);
    ++failures_due;
  } else if (rule.action == "clock") {
    nanoseconds_ahead += static_cast<std::int64_t>(std::stod(rule.argument) * 1e9);
  } else if (rule.action == "sleep") {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::stod(rule.argument)));
  } else {
    tell(rule);
    if (rule.action == "pause") wait_for_go(rule);
  }
}

class Faults {
 public:
  Faults() { arm(); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  /// Reads the rules. Does nothing without any, so that it may be called again.
  void arm() {
    std::istringstream rules(variable("ACCRUE_FAULT"));
    for (std::string text; std::getline(rules, text, ';');) {
      if (text.find_first_not_of(' ') == std::string::npos) continue;
      try {
        if (auto rule = rule_of(text)) rules_.push_back(std::move(rule));
      } catch (const std::exception&) {
        refuse("expected whole numbers, received '" + text + "'");
      }
    }
    if (rules_.empty()) return;
    at::addGlobalCallback(
        at::RecordFunctionCallback(&Faults::at_span).scopes({at::RecordScope::USER_SCOPE}));
    ::on_exit([](int status, void* self) { ::_exit(static_cast<Faults*>(self)->at_end(status)); },
              this);
    arrive("load");
  }

  /// The exit status of a program that ends with `status`.
  int at_end(int status) const {
    for (const auto& rule : rules_) {
      if (rule->used || rule->action == "sleep" || status != 0) continue;
      std::fprintf(stderr, "error: ACCRUE_FAULT: never came to '%s'\n", rule->text.c_str());
      return kNotUsed;
    }
    if (status == 0 && failures_due > 0) {
      std::fprintf(stderr, "error: ACCRUE_FAULT: a call that was to fail was not made\n");
      return kNotUsed;
    }
    return status;
  }

 private:
  static std::unique_ptr<at::ObserverContext> at_span(const at::RecordFunction& span);

  void arrive(const std::string& point) {
    std::vector<const Rule*> due;
    {
      const std::lock_guard lock(mutex_);
      count_steps(point);
      for (const auto& rule : rules_)
        if (is_due(*rule, point)) due.push_back(rule.get());
    }
    for (const Rule* rule : due) act(*rule);  // others may continue while one waits
  }

  /// A step begins with its window, and everything after its update belongs to it.
  void count_steps(const std::string& point) {
    // In layered order a window has no micro-batch of its own.
    const bool is_of_window =
        point == "micro-batch" || point == "segment:forward" || point == "close-window";
    if (is_of_window && updated_) {
      updated_ = false;
      ++step_;
      for (const auto& rule : rules_)
        if (rule->step != 0) rule->seen = 0;
    }
    if (point == "optimizer-step") updated_ = true;
  }

  bool is_due(Rule& rule, const std::string& point) const {
    if (rule.at != point || (rule.step != 0 && rule.step != step_)) return false;
    ++rule.seen;
    if (rule.count != 0 && (rule.used || rule.seen != rule.count)) return false;
    rule.used = true;
    return true;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Rule>> rules_;
  std::int64_t step_ = 1;
  bool updated_ = false;
};

/// Never destroyed: the last functions that exit() runs still use it.
Faults* const faults = new Faults;

std::unique_ptr<at::ObserverContext> Faults::at_span(const at::RecordFunction& span) {
  faults->arrive(point_of(span.name()));
  return nullptr;
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

/// For a process that got its variables after its libraries were loaded
/// (tests/support/started_once.cpp).
extern "C" void accrue_arm_faults() { faults->arm(); }

extern "C" int madvise(void* address, std::size_t bytes, int advice) noexcept {
  static const auto call = real(&::madvise, "madvise");
  if (const int error = error_of(Call::madvise); error != 0) {
    errno = error;
    return -1;
  }
  return call(address, bytes, advice);
}

extern "C" int posix_fallocate(int file, off_t begin, off_t bytes) {
  static const auto call = real(&::posix_fallocate, "posix_fallocate");
  const int error = error_of(Call::posix_fallocate);
  return error != 0 ? error : call(file, begin, bytes);
}

extern "C" int sync_file_range(int file, off64_t begin, off64_t bytes, unsigned int flags) {
  static const auto call = real(&::sync_file_range, "sync_file_range");
  if (const int error = error_of(Call::sync_file_range); error != 0) {
    errno = error;
    return -1;
  }
  return call(file, begin, bytes, flags);
}

// Replaces the C library's, which skips what exit() does.
extern "C" [[noreturn]] void _exit(int status) {
  ::syscall(SYS_exit_group, faults == nullptr ? status : faults->at_end(status));
  __builtin_unreachable();
}
extern "C" [[noreturn]] void _Exit(int status) { ::_exit(status); }

// Replaces the C++ library's.
std::chrono::steady_clock::time_point std::chrono::_V2::steady_clock::now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return time_point(std::chrono::seconds(now.tv_sec) +
                    std::chrono::nanoseconds(now.tv_nsec + nanoseconds_ahead));
}
