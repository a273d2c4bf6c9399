#include "rank_scenarios.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "accrue/core/error.h"
#include "distributed/schedule/stage_link.h"
#include "reduce_scenario.h"
#include "rounds_scenario.h"
#include "support/at_span.h"
#include "support/run_program.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;

/// Bytes that this process wrote, to files and sockets.
std::int64_t written_bytes() {
  std::ifstream counters("/proc/self/io");
  for (std::string name; counters >> name;) {
    std::int64_t value = 0;
    counters >> value;
    if (name == "wchar:") return value;
  }
  return 0;
}

void collectives(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  const auto rank = static_cast<double>(group->rank());
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kLong}) {
    at::Tensor values = at::arange(5, at::dtype(at::kDouble)).add(10 * rank).to(dtype);
    group->start_sum(values, "sum")->wait();
    print(c10::toString(dtype), values);
  }
  at::Tensor from_last = at::full({2}, rank);
  group->broadcast(from_last, group->world() - 1, "broadcast");
  print("broadcast", from_last);
  const at::Tensor rows =
      at::arange(2 * group->world(), at::dtype(at::kLong)).add(100 * group->rank());
  print("all_gather", group->all_gather(at::full({1}, group->rank(), at::kLong)));
  print("all_to_all", group->all_to_all(rows.view({group->world(), 2})));
  print("reduce_scatter", group->reduce_scatter(rows.view({group->world(), 2})));
  std::cout << "gather";
  const at::Tensor gathered = group->gather(at::full({2}, rank), 1, "gather");
  for (std::int64_t row = 0; gathered.defined() && row < group->world(); ++row)
    std::cout << ' ' << gathered[row][1].item<double>();
  std::cout << '\n';
  std::cout << "texts";
  for (const std::string& text : group->gather_texts("greeting", "from " + std::to_string(rank)))
    std::cout << " [" << text << "]";
  std::cout << '\n';
  group->barrier("the end");
}

/// Several sums in progress at a time, one of which is large.
void traffic(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  constexpr std::int64_t elements = 1 << 20;
  std::cout.precision(15);
  const std::int64_t counted_before = group->wire_bytes();
  const std::int64_t written_before = written_bytes();
  at::Tensor large = at::ones({elements}), small = at::ones({3});
  const std::unique_ptr<Work> first = group->start_sum(large, "the large one");
  const std::unique_ptr<Work> second = group->start_sum(small, "the small one");
  second->wait();
  first->wait();
  group->barrier("the end");
  std::cout << "sum " << large.sum().item<double>() + small.sum().item<double>() << "\ncounted "
            << group->wire_bytes() - counted_before << "\nwritten "
            << written_bytes() - written_before << '\n';
}

void sum_and_step(const std::shared_ptr<Group>& group) {
  group->start_sum(at::ones({4}), "the gradients of window 3")->wait();
}

/// `instead` is what rank 1 does while the others do `next`.
void without_rank_1(const Launch& launch, const std::function<void(Group&)>& instead,
                    const std::function<void(const std::shared_ptr<Group>&)>& next = sum_and_step) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 3s});
  group->barrier("the first barrier");
  if (group->rank() == 1) return instead(*group);
  next(group);
  std::cout << "stepped\n";
}

void killed(const Launch& launch, const Words&) {
  without_rank_1(launch, [](Group&) { std::raise(SIGKILL); });
}

/// Lives until all others have given it up.
void stuck(const Launch& launch, const Words&) {
  without_rank_1(
      launch, [](Group&) { line_up("done"); },
      [](const std::shared_ptr<Group>& group) {
        try {
          sum_and_step(group);
        } catch (const Error&) {
          line_up("done");
          throw;
        }
      });
}

void failing(const Launch& launch, const Words&) {
  without_rank_1(launch, [](Group& group) { group.fail("no room on the disk"); });
}

/// `next` is what the others do.
void without_the_host(const Launch& launch, const std::function<void(Group&)>& next,
                      int signal = SIGKILL) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 3s});
  group->barrier("the first barrier");
  if (group->rank() == 0) std::raise(signal);
  next(*group);
  std::cout << "stepped\n";
}

void host_killed(const Launch& launch, const Words&) {
  without_the_host(launch, [](Group& group) { group.barrier("the second barrier"); });
}

void host_killed_before_texts(const Launch& launch, const Words&) {
  without_the_host(launch, [](Group& group) { group.gather_texts("greeting", "hello"); });
}

void host_frozen(const Launch& launch, const Words&) {
  without_the_host(
      launch, [](Group& group) { group.barrier("the second barrier"); }, SIGSTOP);
}

void host_frozen_before_texts(const Launch& launch, const Words&) {
  without_the_host(
      launch, [](Group& group) { group.gather_texts("greeting", "hello"); }, SIGSTOP);
}

void host_frozen_before_passing(const Launch& launch, const Words&) {
  without_the_host(
      launch,
      [](Group& group) {
        at::Tensor values = at::zeros({4});
        group.start_receive(values, 0, "activations")->wait();
      },
      SIGSTOP);
}

void frozen(const Launch& launch, const Words&) {
  without_rank_1(launch, [](Group&) { std::raise(SIGSTOP); });
}

/// Rank 2 comes to the sum after the others have given rank 1 up: their timeout is shorter.
void heard_of(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = launch.rank == 2 ? 1000s : 3s});
  group->barrier("the first barrier");
  if (group->rank() == 1) std::raise(SIGSTOP);
  sum_and_step(group);
}

/// Whether the store answers at an address.
bool is_reachable(const char* address, std::uint16_t port) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &place.sin_addr);
  const bool connected =
      ::connect(descriptor, reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0;
  ::close(descriptor);
  return connected;
}

void reachable(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  std::cout << "reachable " << is_reachable("127.0.0.1", launch.master_port) << ' '
            << is_reachable("127.0.0.2", launch.master_port) << '\n';
  group->barrier("the end");
}

/// Each rank passes lists on to the next and back, several before the first is received.
void passing(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  const auto rank = group->rank(), last = group->world() - 1;
  StageLink link(group);
  const at::Tensor matrix = at::arange(6, at::kFloat).view({3, 2}).t();
  for (int list = 0; rank == 0 && list < 3; ++list)
    link.send(1, {matrix + list, {}, at::full({}, list, at::kBFloat16), at::empty({0, 4})}, "on");
  for (int list = 0; rank > 0 && list < 3; ++list) {
    const std::vector<at::Tensor> got = link.receive(rank - 1, "what comes on");
    if (rank < last) link.send(rank + 1, got, "on");
    std::cout << "list" << list << ' ' << got.size() << ' ' << got[1].defined() << ' '
              << got[2].dim() << ' ' << got[2].item<double>() << ' ' << got[3].size(1) << ' '
              << got[0].equal(matrix + list) << '\n';
    link.send(rank - 1, {}, "back");
  }
  for (int list = 0; rank < last && list < 3; ++list)
    std::cout << "back" << list << ' ' << link.receive(rank + 1, "what comes back").size() << '\n';
  link.finish();
  group->barrier("the end");
}

/// Ranks announce different numbers, one after the other and at once, and receive the largest.
void announced(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  const auto hear = [&](std::int64_t number) {
    while (group->announced() < number) std::this_thread::sleep_for(10ms);
    std::cout << "heard " << group->announced() << '\n';
    group->barrier("what was heard");
  };
  group->barrier("the beginning");
  std::cout << "before " << group->announced() << '\n';
  group->barrier("nothing was announced");
  if (group->rank() == 1) group->announce(3);
  hear(3);
  group->announce(group->rank() == 2 ? 9 : 5 + group->rank());
  hear(9);
  group->announce(4);
  wait_for_heart();
  hear(9);
}

void unanswered(const Launch& launch, const Words&) {
  without_rank_1(
      launch, [](Group&) { std::raise(SIGKILL); },
      [](const std::shared_ptr<Group>& group) {
        StageLink(group).receive(1, "activations of the stage before");
      });
}

/// The kernel's action on a thread of the group that writes to a rank that is gone.
void broken_pipes(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(task.path().filename());
    if (thread != ::getpid() && ::tgkill(::getpid(), thread, SIGPIPE) == 0) ++threads;
  }
  group->barrier("the end");
  std::cout << "threads " << threads << '\n';
}

void connecting(const Launch& launch, const Words&) { connect(launch, {.timeout = 3s}); }

}  // namespace

void line_up(const std::string& mark) {
  std::ofstream(mark).put('1');
  const int started = std::stoi(this_environment().at("RANKS_STARTED"));
  for (int rank = 0; rank < started; ++rank)
    accrue::testing::wait_until(
        [&] { return std::filesystem::exists("../rank" + std::to_string(rank) + "/" + mark); });
}

void wait_for_heart() {
  std::mutex mutex;
  std::condition_variable beat;
  int beats = 0;
  const accrue::testing::AtSpan heart("ranks: beat", [&] {
    const std::lock_guard lock(mutex);
    ++beats;
    beat.notify_all();
  });
  std::unique_lock lock(mutex);
  // When the second one begins the first is over.
  if (!beat.wait_for(lock, std::chrono::minutes(1), [&] { return beats >= 2; }))
    throw std::runtime_error("there is no heartbeat");
}

void print(std::string_view name, const at::Tensor& values) {
  std::cout << name;
  const at::Tensor all = values.detach().to(at::kDouble).contiguous();
  for (std::int64_t i = 0; i < all.numel(); ++i)
    std::cout << ' ' << all.const_data_ptr<double>()[i];
  std::cout << '\n';
}

const std::map<std::string, Scenario>& scenarios() {
  static const std::map<std::string, Scenario> table{
      {"collectives", collectives},
      {"rounds", take_rounds},
      {"traffic", traffic},
      {"killed", killed},
      {"stuck", stuck},
      {"failing", failing},
      {"host_killed", host_killed},
      {"host_killed_before_texts", host_killed_before_texts},
      {"host_frozen", host_frozen},
      {"host_frozen_before_texts", host_frozen_before_texts},
      {"host_frozen_before_passing", host_frozen_before_passing},
      {"frozen", frozen},
      {"heard_of", heard_of},
      {"reachable", reachable},
      {"connecting", connecting},
      {"broken_pipes", broken_pipes},
      {"passing", passing},
      {"announced", announced},
      {"unanswered", unanswered},
      {"reduce", reduce_windows},
      {"other_shapes", other_shapes},
  };
  return table;
}

}  // namespace accrue::distributed
