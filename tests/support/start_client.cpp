// Stands for a program of the tests that started_once.cpp keeps loaded: start_client, copied to
// FOLDER/NAME, runs FOLDER/program by way of FOLDER/socket, and ends as that ends. Where there is
// no such socket, or the environment is another, it becomes the program.

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "start_request.h"

namespace {

using accrue::testing::Answer;
using accrue::testing::StartRequest;

/// Not started if the program has to be started otherwise.
Answer asked(const std::filesystem::path& socket, StartRequest request) {
  sockaddr_un place{.sun_family = AF_UNIX, .sun_path = {}};
  if (socket.native().size() >= sizeof place.sun_path) return {};
  std::strcpy(place.sun_path, socket.c_str());
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0)
    return {};
  request.folder = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!accrue::testing::send_request(connection, request)) return {};
  Answer answer;
  if (::recv(connection, &answer, sizeof answer, 0) != sizeof answer) {
    std::fprintf(stderr, "error: start_client: expected how the program ended, received nothing\n");
    std::exit(125);
  }
  return answer;
}

}  // namespace

int main(int, char** words) {
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string program = folder / "program";
  StartRequest request{.words = accrue::testing::list_of(words),
                       .variables = accrue::testing::list_of(environ),
                       .streams = {0, 1, 2}};
  request.words.front() = program;
  const Answer answer = asked(folder / "socket", std::move(request));
  if (answer.is_started == 0) {
    ::execv(program.c_str(), words);
    std::perror("error: start_client: execv");
    return 126;
  }
  if (WIFEXITED(answer.status)) return WEXITSTATUS(answer.status);
  ::signal(WTERMSIG(answer.status), SIG_DFL);
  ::raise(WTERMSIG(answer.status));
  return 128 + WTERMSIG(answer.status);
}
