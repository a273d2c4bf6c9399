// Preloaded into a program of the tests, starts it many times for the price of one: libtorch takes
// a third of a second to load, which is more than most commands of the tests do.
//
// The program is loaded once, and waits between the load of its libraries and its first own
// instruction for requests at the listening socket whose number ACCRUE_STARTED_ONCE states, which
// is the last of its variables (start_request.h). Each request is a fork that goes on with the
// words, the variables, the folder and the streams of whoever asked, and with no other descriptor.
// So the program that is tested is the one that is shipped, and nothing of one start is left in the
// next. It ends when nobody has the other end of its stdin any more.
//
// What a fork cannot have is not started: other variables that libraries read when they are loaded,
// what they do at this moment, and threads that they start.

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "start_request.h"

namespace {

using accrue::testing::Answer;
using accrue::testing::StartRequest;
using Main = int (*)(int, char**, char**);
using Function = void (*)();
using Start = int (*)(Main, int, char**, Function, Function, Function, void*);

constexpr const char* kListening = "ACCRUE_STARTED_ONCE";
constexpr int kCannotStart = 126;

int descriptor_of(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

/// The environment in which the program was loaded.
struct Loaded {
  std::vector<std::string> asked;  ///< what libraries read of the variables that it got
  std::vector<std::string> added;  ///< by the program, which began anew with more variables

  Loaded() {
    std::vector<std::string> variables = accrue::testing::list_of(environ);
    const auto own = std::ranges::find_if(
        variables, [](const std::string& text) { return text.starts_with(kListening); });
    added.assign(own + 1, variables.end());
    variables.erase(own, variables.end());
    for (std::string& variable : variables)
      if (variable.starts_with("LD_PRELOAD=")) {
        // This library is the first one.
        const std::size_t colon = variable.find(':');
        variable = colon == std::string::npos ? "" : "LD_PRELOAD=" + variable.substr(colon + 1);
      }
    asked = accrue::testing::read_when_loaded(variables);
  }
};

/// A fork has only the thread that makes it. Arrow's allocator has one that prepares for forks.
bool has_threads_of_libraries() {
  int others = -1;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    others += name == "jemalloc_bg_thd" ? 0 : 1;
  }
  return others > 0;
}

/// Returns the program's status; if whoever asked is gone, the program is killed.
int status_of(pid_t program, int asked) {
  const int ended = descriptor_of(program);
  pollfd either[] = {{.fd = ended, .events = POLLIN, .revents = 0},
                     {.fd = asked, .events = POLLIN, .revents = 0}};
  while (ended >= 0 && ::poll(either, 2, -1) < 0) {
  }
  if (ended >= 0 && either[0].revents == 0) ::kill(program, SIGKILL);
  int status = 0;
  ::waitpid(program, &status, 0);
  return status;
}

void wait_for_end(pid_t process) {
  pollfd ended{.fd = descriptor_of(process), .events = POLLIN, .revents = 0};
  while (ended.fd >= 0 && ::poll(&ended, 1, -1) < 0) {
  }
  ::close(ended.fd);
}

/// Returns the request in the process that is to become the program.
std::optional<StartRequest> answer(int asked, const Loaded& loaded, bool can_fork) {
  std::optional<StartRequest> request = accrue::testing::receive_request(asked);
  if (!request) return std::nullopt;
  Answer answer;
  if (can_fork && accrue::testing::read_when_loaded(request->variables) == loaded.asked &&
      !accrue::testing::acts_when_loaded(request->variables)) {
    const pid_t between = ::getpid();
    const pid_t program = ::fork();
    if (program == 0) {
      ::close(asked);
      if (request->is_for_child) wait_for_end(between);  // it is the asking process's child then
      return request;
    }
    // Without another process whoever asked starts it; -1 would stand for all processes.
    if (program > 0)
      answer = {.is_started = 1,
                .number = request->is_for_child ? program : status_of(program, asked)};
  }
  const bool is_told = ::send(asked, &answer, sizeof answer, MSG_NOSIGNAL) > 0;
  if (!is_told && request->is_for_child && answer.is_started != 0) ::kill(answer.number, SIGKILL);
  return std::nullopt;
}

/// A process between the loaded program and the one that it starts.
struct Between {
  pid_t process;
  int ended, asked;

  void close() const {
    ::close(ended);
    ::close(asked);
  }
};

/// Returns in each process that is to become the program, with what was asked for it.
StartRequest serve(int listening, const Loaded& loaded) {
  std::vector<Between> all;
  while (true) {
    std::vector<pollfd> events{{.fd = listening, .events = POLLIN, .revents = 0},
                               {.fd = STDIN_FILENO, .events = 0, .revents = 0}};
    for (const Between& one : all)
      events.push_back({.fd = one.ended, .events = POLLIN, .revents = 0});
    if (::poll(events.data(), events.size(), -1) < 0) continue;
    if (events[1].revents != 0) ::_exit(0);
    for (std::size_t i = all.size(); i-- > 0;) {
      if (events[i + 2].revents == 0) continue;
      ::waitpid(all[i].process, nullptr, 0);  // its processor seconds count
      all[i].close();
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (events[0].revents == 0) continue;
    const int asked = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (asked < 0) continue;
    const bool can_fork = !has_threads_of_libraries();
    const pid_t process = ::fork();
    if (process == 0) {
      ::close(listening);
      for (const Between& one : all) one.close();
      if (std::optional<StartRequest> request = answer(asked, loaded, can_fork))
        return *std::move(request);
      ::_exit(0);
    }
    if (process > 0) {
      all.push_back({process, descriptor_of(process), asked});
    } else {
      const Answer none;
      ::send(asked, &none, sizeof none, MSG_NOSIGNAL);
      ::close(asked);
    }
  }
}

/// For as long as the program runs.
std::vector<char*>& kept(std::vector<std::string> texts) {
  auto& all = *new std::vector<std::string>(std::move(texts));
  auto& pointers = *new std::vector<char*>;
  for (std::string& text : all) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Has this process all that was asked for it. Returns its words.
std::vector<char*>& become(StartRequest request, const Loaded& loaded) {
  if (::fchdir(request.folder) != 0) ::_exit(kCannotStart);
  for (int stream = 0; stream < 3; ++stream) ::dup2(request.streams[stream], stream);
  for (const int descriptor : request.streams) ::close(descriptor);
  ::close(request.folder);
  request.variables.insert(request.variables.end(), loaded.added.begin(), loaded.added.end());
  environ = kept(std::move(request.variables)).data();
  // Faults are armed by variables that came with the request (tests/faults/fault_points.cpp).
  if (const auto arm = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "accrue_arm_faults")))
    arm();
  return kept(std::move(request.words));
}

}  // namespace

// Replaces the C library's, which the first instructions of a program call.
extern "C" [[gnu::visibility("default")]] int __libc_start_main(Main program, int count,
                                                                char** words, Function init,
                                                                Function fini, Function loader_fini,
                                                                void* stack) {
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  const char* listening = std::getenv(kListening);
  if (listening == nullptr) return start(program, count, words, init, fini, loader_fini, stack);
  const Loaded loaded;
  std::vector<char*>& own = become(serve(std::atoi(listening), loaded), loaded);
  return start(program, static_cast<int>(own.size()) - 1, own.data(), init, fini, loader_fini,
               stack);
}

namespace {

using Visit = int (*)(dl_phdr_info*, std::size_t, void*);

struct Visitor {
  Visit visit;
  void* data;
};

int visit_others(dl_phdr_info* object, std::size_t size, void* visitor) {
  if (std::string_view(object->dlpi_name).ends_with("/libstarted_once.so")) return 0;
  const Visitor& others = *static_cast<Visitor*>(visitor);
  return others.visit(object, size, others.data);
}

}  // namespace

// Replaces the C library's: a run records the libraries that it was loaded with, and a fork has to
// record those of any other start.
extern "C" [[gnu::visibility("default")]] int dl_iterate_phdr(Visit visit, void* data) {
  static const auto all =
      reinterpret_cast<decltype(&dl_iterate_phdr)>(::dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  Visitor visitor{visit, data};
  return all(visit_others, &visitor);
}
