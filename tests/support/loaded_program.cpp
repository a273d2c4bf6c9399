// Preloaded into a program of the tests, has it wait between the load of its libraries and its main
// function, and continue in a fork for each request (loaded_programs.h).
//
// To load libtorch takes 0.3 s of a processor, most of it for the registration of operators. The
// program is the one that is shipped, and a fork of it runs all of main.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
using Function = void (*)();
using Start = int (*)(Main, int, char**, Function, Function, Function, void*);

constexpr const char* kSocket = "ACCRUE_LOADED_PROGRAM";
constexpr std::size_t kMostBytes = 1 << 17;  // of a request, as in loaded_programs.h
constexpr int kCannotStart = 127;

/// The strings of a request: the working directory, the files of the two streams, the number of
/// words, the words of the command, and the variables.
using Request = std::vector<std::string>;

Request request_of(const std::string& message) {
  Request request;
  for (std::size_t begin = 0; begin < message.size();) {
    request.emplace_back(message.c_str() + begin);
    begin += request.back().size() + 1;
  }
  return request;
}

void redirect(const std::string& file, int stream) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (::dup2(descriptor, stream) < 0) ::_exit(kCannotStart);
  ::close(descriptor);
}

/// Has this process all that `request` states. Returns the words, which are never freed.
std::vector<char*>& become(const Request& request) {
  ::unsetenv(kSocket);
  ::unsetenv("LD_PRELOAD");
  redirect(request[1], STDOUT_FILENO);
  redirect(request[2], STDERR_FILENO);
  if (::chdir(request[0].c_str()) != 0) ::_exit(kCannotStart);
  auto& words = *new std::vector<char*>;
  const std::size_t first = 4, count = std::stoul(request[3]);
  for (std::size_t i = first; i < request.size(); ++i) {
    char* const text = ::strdup(request[i].c_str());
    if (i < first + count)
      words.push_back(text);
    else
      ::putenv(text);
  }
  words.push_back(nullptr);
  // Faults are armed by variables that came with the request (tests/faults/fault_points.cpp).
  if (const auto arm = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "accrue_arm_faults")))
    arm();
  return words;
}

/// Returns in each process that is to be the program, with its request. The process between the two
/// ends at once, so that the program is a child of the process that asked (PR_SET_CHILD_SUBREAPER).
Request serve(int socket) {
  auto* const program = static_cast<pid_t*>(
      ::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::string message(kMostBytes, '\0');
  for (;;) {
    const ssize_t bytes = ::recv(socket, message.data(), message.size(), 0);
    if (bytes <= 0) ::_exit(0);  // the test ended
    const pid_t between = ::fork();
    if (between == 0) {
      const pid_t started = ::fork();
      if (started != 0) {
        *program = started;
        ::_exit(0);
      }
      ::close(socket);
      return request_of(message.substr(0, static_cast<std::size_t>(bytes)));
    }
    ::waitpid(between, nullptr, 0);
    if (::send(socket, program, sizeof *program, MSG_NOSIGNAL) < 0) ::_exit(0);
  }
}

}  // namespace

// Replaces the C library's, which the first instructions of a program call.
extern "C" int __libc_start_main(Main main, int count, char** words, Function init, Function fini,
                                 Function end, void* stack) {
  const auto start = reinterpret_cast<Start>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  const char* const socket = std::getenv(kSocket);
  if (socket == nullptr) return start(main, count, words, init, fini, end, stack);
  std::vector<char*>& own = become(serve(std::atoi(socket)));
  return start(main, static_cast<int>(own.size()) - 1, own.data(), init, fini, end, stack);
}
