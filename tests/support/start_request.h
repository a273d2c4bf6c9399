#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

/// What is asked of a program that is loaded once (started_once.cpp), and what it answers. Those
/// who ask: start_client.cpp, started_once.h (tests in C++) and started_once.py.
namespace accrue::testing {

struct StartRequest {
  /// The program becomes a child of the process that asks, which has called
  /// prctl(PR_SET_CHILD_SUBREAPER) and is the parent of the loaded program. Otherwise the answer
  /// comes when the program ends, which is killed if the connection ends before.
  bool is_for_child = false;
  std::vector<std::string> words, variables;
  int streams[3] = {-1, -1, -1};
  int folder = -1;
};

struct Answer {
  int is_started = 0;  ///< 0: whoever asks has to start the program itself
  int number = 0;      ///< the child, or the program's status as waitpid() has it
};

constexpr std::size_t kLargestRequest = 128 << 10;

inline std::vector<std::string> list_of(char** words) {
  std::vector<std::string> list;
  for (; *words != nullptr; ++words) list.emplace_back(*words);
  return list;
}

/// The variables that libraries read when they are loaded, in order.
inline std::vector<std::string> read_when_loaded(const std::vector<std::string>& variables) {
  std::vector<std::string> read;
  for (const std::string& variable : variables)
    for (const std::string_view prefix : {"LD_", "OMP_", "GOMP_", "KMP_", "GLIBC_", "MALLOC_",
                                          "TORCH_", "MKL_", "DNNL_", "ONEDNN_", "CUDA_"})
      if (variable.starts_with(prefix)) read.push_back(variable);
  std::ranges::sort(read);
  return read;
}

/// Whether a library is to act at the moment in which it is loaded, which a fork does not have: a
/// fault at this point (tests/faults/fault_points.cpp), or libgomp's report of its settings.
inline bool acts_when_loaded(const std::vector<std::string>& variables) {
  return std::ranges::any_of(variables, [](const std::string& variable) {
    return variable.starts_with("OMP_DISPLAY_") ||
           (variable.starts_with("ACCRUE_FAULT=") &&
            (variable + ' ').find("at=load ") != std::string::npos);
  });
}

/// One packet: 1 or 0 for a child, how many words, the words, the variables, each followed by a 0.
/// Returns whether it went.
inline bool send_request(int connection, const StartRequest& request) {
  std::string packet(request.is_for_child ? "1" : "0");
  packet += '\0' + std::to_string(request.words.size()) + '\0';
  for (const auto* list : {&request.words, &request.variables})
    for (const std::string& text : *list) packet += text + '\0';
  const int descriptors[] = {request.streams[0], request.streams[1], request.streams[2],
                             request.folder};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  iovec content{.iov_base = packet.data(), .iov_len = packet.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  return packet.size() <= kLargestRequest &&
         ::sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

/// None if whoever asked is gone.
inline std::optional<StartRequest> receive_request(int connection) {
  std::string packet(kLargestRequest, '\0');
  int descriptors[4];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  iovec content{.iov_base = packet.data(), .iov_len = packet.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (size <= 0 || header == nullptr || header->cmsg_len != CMSG_LEN(sizeof descriptors))
    return std::nullopt;
  std::memcpy(descriptors, CMSG_DATA(header), sizeof descriptors);
  packet.resize(static_cast<std::size_t>(size));
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < packet.size(); at += texts.back().size() + 1)
    texts.emplace_back(packet.c_str() + at);
  const auto words = texts.begin() + 2, variables = words + std::stol(texts[1]);
  return StartRequest{.is_for_child = texts[0] == "1",
                      .words = {words, variables},
                      .variables = {variables, texts.end()},
                      .streams = {descriptors[0], descriptors[1], descriptors[2]},
                      .folder = descriptors[3]};
}

/// Asks the program that listens at `address`. Nothing is started if nobody listens there, or if
/// the request is larger than one may be. Throws std::system_error if the program ends without an
/// answer.
inline Answer ask(const sockaddr_un& address, socklen_t size, const StartRequest& request) {
  const int connection = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  Answer answer;
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      send_request(connection, request)) {
    if (::recv(connection, &answer, sizeof answer, 0) != sizeof answer)
      throw std::system_error(errno, std::generic_category(), "a program that is loaded once");
    // A child is one once the connection ends.
    char byte = 0;
    while (request.is_for_child && ::recv(connection, &byte, 1, 0) > 0) {
    }
  }
  ::close(connection);
  return answer;
}

}  // namespace accrue::testing
