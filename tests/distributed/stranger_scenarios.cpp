#include "stranger_scenarios.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "accrue/core/error.h"
#include "distributed/group/store/text_seal.h"
#include "support/run_program.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;

/// The key of rank 1's text of the first gather.
constexpr const char* kGreeting = "greeting 1/1";

c10::intrusive_ptr<c10d::Store> whole_store_of(const Launch& launch) {
  c10d::TCPStoreOptions options;
  options.port = launch.master_port;
  return c10::make_intrusive<c10d::TCPStore>(launch.master_addr, options);
}

/// The folder where the ranks of the last start meet, which anyone can read.
std::string folder_of(c10d::Store& store) {
  return "accrue/" + store.get_to_str("accrue/roll/complete");
}

c10::intrusive_ptr<c10d::Store> stranger_of(const Launch& launch) {
  const auto store = whole_store_of(launch);
  return c10::make_intrusive<c10d::PrefixStore>(folder_of(*store), store);
}

/// Sets `key`, and returns when others read it.
void set_and_wait(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, text);
  store.check({key});
}

void wait_for_mark(const std::string& mark, const std::vector<int>& ranks) {
  for (const int rank : ranks)
    accrue::testing::wait_until(
        [&] { return std::filesystem::exists("../rank" + std::to_string(rank) + "/" + mark); });
}

/// A verdict that all have read, and a barrier that rank 1 enters after `until`: a verdict ends the
/// waiting of the others.
void after_verdict(const Launch& launch,
                   const std::function<std::string(c10d::Store&)>& make_verdict,
                   const std::function<void()>& until) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 20s});
  group->barrier("the first barrier");
  if (launch.rank == 1) {
    const auto stranger = stranger_of(launch);
    set_and_wait(*stranger, "verdict", make_verdict(*stranger));
  }
  line_up("judged");
  wait_for_heart();
  if (launch.rank == 1) until();
  try {
    group->barrier("the second barrier");
  } catch (const Error&) {
    std::ofstream("gave_up").put('1');
    throw;
  }
  std::cout << "stepped\n";
}

void forged_verdict(const Launch& launch, const Words& words) {
  after_verdict(
      launch, [&](c10d::Store&) { return words.at(0); }, wait_for_heart);
}

/// Writes it like a rank itself.
void sealed_verdict(const Launch& launch, const Words& words) {
  after_verdict(
      launch,
      [&](c10d::Store& store) {
        const std::string key = "here/0", folder = folder_of(*whole_store_of(launch)) + "/";
        const auto run = TextSeal(launch.run_token, "").opened(folder + key, store.get_to_str(key));
        const std::string name = run.value().substr(0, run->find('\n'));
        return TextSeal(launch.run_token, name).sealed(folder + "verdict", words.at(0));
      },
      [] {
        wait_for_mark("gave_up", {0, 2});
      });
}

void failing_after_a_forged_verdict(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 20s});
  group->barrier("the first barrier");
  if (launch.rank == 1) {
    set_and_wait(*stranger_of(launch), "verdict", "go home");
    return group->fail("no room on the disk");
  }
  group->barrier("the second barrier");
  std::cout << "stepped\n";
}

/// The peak of this process's memory in bytes.
std::int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

void print_growth(std::int64_t since) { std::cout << "grew " << peak_bytes() - since << '\n'; }

/// The store copies more than a gigabyte meanwhile, as a text is copied with each part that is
/// appended, and gives no sign of life: on a busy machine, with sanitizers, for seconds. Nothing
/// waits for it to pass.
constexpr std::chrono::seconds kWhileTheStoreCopies{100};

/// `write` puts something in the place of rank 1's text, which the others come upon.
void in_place_of_a_text(const Launch& launch, const std::function<void(c10d::Store&)>& write) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = kWhileTheStoreCopies});
  group->barrier("the first barrier");
  if (launch.rank == 1) write(*stranger_of(launch));
  group->barrier("the second barrier");
  if (launch.rank == 1) return line_up("read");
  const std::int64_t before = peak_bytes();
  try {
    group->gather_texts("greeting", "hello");
  } catch (const Error&) {
    print_growth(before);
    line_up("read");
    throw;
  }
}

void tampered_text(const Launch& launch, const Words& words) {
  in_place_of_a_text(launch,
                     [&](c10d::Store& store) { set_and_wait(store, kGreeting, words.at(0)); });
}

void write_huge(c10d::Store& store) {
  const std::vector<std::uint8_t> part(8 << 20);
  for (int i = 0; i < 12; ++i) store.append(kGreeting, part);
  store.check({kGreeting});
}

void huge_text(const Launch& launch, const Words&) { in_place_of_a_text(launch, write_huge); }

/// The same, read by c10d's own client.
void huge_text_by_c10d(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = kWhileTheStoreCopies});
  const auto stranger = stranger_of(launch);
  if (launch.rank == 1) write_huge(*stranger);
  group->barrier("the first barrier");
  const std::int64_t before = peak_bytes();
  if (launch.rank == 2) stranger->get(kGreeting);
  print_growth(before);
  group->barrier("the second barrier");
}

/// A position that is not a number was not written by the rank that died.
void forged_place(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 3s});
  group->barrier("the first barrier");
  if (launch.rank == 1) {
    set_and_wait(*stranger_of(launch), "at/1", "99999999999999999999 home");
    std::raise(SIGKILL);
  }
  group->barrier("the second barrier");
}

/// The third process comes to two that have met, and gives up.
void late_stranger(const Launch& launch, const Words&) {
  if (std::filesystem::current_path().filename() == "rank2") {
    wait_for_mark("met", {0});
    try {
      connect(launch, {.timeout = 1s, .least = 1});
    } catch (const Error&) {
      std::ofstream("gave_up").put('1');
      throw;
    }
  }
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 20s, .least = 1});
  group->settle();
  if (launch.rank == 0) std::ofstream("met").put('1');
  wait_for_mark("gave_up", {2});
  group->barrier("the end");
}

}  // namespace

const std::map<std::string, Scenario>& stranger_scenarios() {
  static const std::map<std::string, Scenario> table{
      {"forged_verdict", forged_verdict},
      {"sealed_verdict", sealed_verdict},
      {"failing_after_a_forged_verdict", failing_after_a_forged_verdict},
      {"tampered_text", tampered_text},
      {"huge_text", huge_text},
      {"huge_text_by_c10d", huge_text_by_c10d},
      {"forged_place", forged_place},
      {"late_stranger", late_stranger},
  };
  return table;
}

}  // namespace accrue::distributed
