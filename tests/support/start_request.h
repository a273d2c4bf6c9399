#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

/// What start_client.cpp asks of a program that started_once.cpp keeps.
namespace accrue::testing {

struct StartRequest {
  std::vector<std::string> words, variables;
  int streams[3] = {-1, -1, -1};
  int folder = -1;
};

struct Answer {
  int is_started = 0;  ///< 0: the environment is not that in which the program was loaded
  int status = 0;      ///< as waitpid() has it
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
    for (const std::string_view prefix :
         {"LD_", "OMP_", "GOMP_", "KMP_", "GLIBC_", "MALLOC_", "TORCH_"})
      if (variable.starts_with(prefix)) read.push_back(variable);
  std::ranges::sort(read);
  return read;
}

/// One packet: how many words, the words, the variables, each behind the other with a 0 at its end.
/// Returns whether it went.
inline bool send_request(int connection, const StartRequest& request) {
  std::string packet = std::to_string(request.words.size()) + '\0';
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

/// Ends the process if there is none.
inline StartRequest receive_request(int connection) {
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
    ::_exit(1);
  std::memcpy(descriptors, CMSG_DATA(header), sizeof descriptors);
  packet.resize(static_cast<std::size_t>(size));
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < packet.size(); at += texts.back().size() + 1)
    texts.emplace_back(packet.c_str() + at);
  const auto words = texts.begin() + 1, variables = words + std::stol(texts.front());
  return {.words = {words, variables},
          .variables = {variables, texts.end()},
          .streams = {descriptors[0], descriptors[1], descriptors[2]},
          .folder = descriptors[3]};
}

}  // namespace accrue::testing
