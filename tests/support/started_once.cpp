// Preloaded into a program of the tests, starts it many times for the price of one: libtorch takes
// a third of a second to load, which is more than most commands of the tests do.
//
// The program is loaded once, and waits before its main() for requests at the listening socket
// whose number ACCRUE_STARTED_ONCE states. Each request is a fork that goes on into main() with the
// arguments, the environment, the folder and the streams of whoever asked (start_client.cpp). So
// the program that is tested is the one that is shipped, and nothing of one start is left in the
// next. It ends when nobody has the other end of its stdin any more.
//
// What libraries read of the environment while they are loaded has to be as it was then; such a
// request is sent back.

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "start_request.h"

namespace {

using accrue::testing::Answer;
using accrue::testing::StartRequest;
using Main = int (*)(int, char**, char**);

Main program_main = nullptr;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> made;
  for (std::string& word : words) made.push_back(word.data());
  made.push_back(nullptr);
  return made;
}

/// In the process that is to become the program.
[[noreturn]] void go_on(StartRequest request) {
  if (::fchdir(request.folder) != 0) ::_exit(126);
  for (int stream = 0; stream < 3; ++stream) ::dup2(request.streams[stream], stream);
  for (const int descriptor : request.streams) ::close(descriptor);
  ::close(request.folder);
  static std::vector<std::string> words, variables;  // for as long as the program runs
  words = std::move(request.words);
  variables = std::move(request.variables);
  static std::vector<char*> arguments, environment;
  arguments = pointers(words);
  environment = pointers(variables);
  environ = environment.data();
  std::exit(program_main(static_cast<int>(words.size()), arguments.data(), environ));
}

/// Returns the program's status; if whoever asked is gone, the program is killed.
int status_of(pid_t program, int asked) {
  const int ended = static_cast<int>(::syscall(SYS_pidfd_open, program, 0));
  pollfd either[] = {{.fd = ended, .events = POLLIN, .revents = 0},
                     {.fd = asked, .events = POLLIN, .revents = 0}};
  while (ended >= 0 && ::poll(either, 2, -1) < 0) {
  }
  if (ended >= 0 && either[0].revents == 0) ::kill(program, SIGKILL);
  int status = 0;
  ::waitpid(program, &status, 0);
  return status;
}

[[noreturn]] void answer(int asked, const std::vector<std::string>& when_loaded) {
  StartRequest request = accrue::testing::receive_request(asked);
  Answer answer;
  if (accrue::testing::read_when_loaded(request.variables) == when_loaded) {
    const pid_t program = ::fork();
    if (program == 0) {
      ::close(asked);
      go_on(std::move(request));
    }
    // Without another process whoever asked starts it; -1 would stand for all processes.
    if (program > 0) answer = {.is_started = 1, .status = status_of(program, asked)};
  }
  ::send(asked, &answer, sizeof answer, MSG_NOSIGNAL);
  ::_exit(0);
}

[[noreturn]] void serve(int listening) {
  std::vector<std::string> when_loaded =
      accrue::testing::read_when_loaded(accrue::testing::list_of(environ));
  pollfd either[] = {{.fd = listening, .events = POLLIN, .revents = 0},
                     {.fd = STDIN_FILENO, .events = 0, .revents = 0}};
  while (true) {
    const int ready = ::poll(either, 2, -1);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // their processor seconds count
    }
    if (ready < 0) continue;
    if (either[1].revents != 0) ::_exit(0);
    const int asked = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (asked < 0) continue;
    if (::fork() == 0) {
      ::close(listening);
      answer(asked, when_loaded);
    }
    ::close(asked);
  }
}

int main_or_serve(int count, char** words, char** variables) {
  const char* stated = std::getenv("ACCRUE_STARTED_ONCE");
  if (stated == nullptr) return program_main(count, words, variables);
  const int listening = std::atoi(stated);
  ::unsetenv("ACCRUE_STARTED_ONCE");
  ::unsetenv("LD_PRELOAD");
  serve(listening);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int __libc_start_main(Main program, int count,
                                                                char** words, void (*init)(),
                                                                void (*fini)(),
                                                                void (*loader_fini)(),
                                                                void* stack) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  program_main = program;
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(main_or_serve, count, words, init, fini, loader_fini, stack);
}
