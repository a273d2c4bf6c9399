// Stands for a program of the tests that started_once.cpp keeps loaded: start_client, copied to
// FOLDER/NAME, runs FOLDER/program by way of FOLDER/socket, and ends as that ends. Where there is
// no such socket, or the program cannot be forked for this start, it becomes the program.

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "start_request.h"

namespace {

using accrue::testing::Answer;
using accrue::testing::StartRequest;

/// Not started if the program has to be started otherwise.
Answer asked(const std::filesystem::path& socket, StartRequest request) {
  sockaddr_un place{.sun_family = AF_UNIX, .sun_path = {}};
  if (socket.native().size() >= sizeof place.sun_path) return {};
  std::strcpy(place.sun_path, socket.c_str());
  request.folder = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return accrue::testing::ask(place, sizeof place, request);
}

int run(char** words) {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string program = folder / "program";
  StartRequest request{.words = accrue::testing::list_of(words),
                       .variables = accrue::testing::list_of(environ),
                       .streams = {0, 1, 2}};
  request.words.front() = program;
  const Answer answer = asked(folder / "socket", request);
  if (answer.is_started == 0) {
    ::execv(program.c_str(), words);
    std::perror("error: start_client: execv");
    return 126;
  }
  if (WIFEXITED(answer.number)) return WEXITSTATUS(answer.number);
  ::signal(WTERMSIG(answer.number), SIG_DFL);
  ::raise(WTERMSIG(answer.number));
  return 128 + WTERMSIG(answer.number);
}

}  // namespace

int main(int, char** words) {
  try {
    return run(words);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "error: start_client: %s\n", error.what());
    return 125;
  }
}
