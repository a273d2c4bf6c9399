// One rank of a run, on a machine on which micro-batches take longer: `slow_rank CONFIG.toml
// MILLISECONDS [CHECKPOINT to resume, '' for the newest, 'auto' for that or a new run]`, with a
// launcher's variables, or alone.

#include <ATen/record_function.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "accrue/distributed/group.h"
#include "accrue/train/trainer.h"
#include "support/exit_status.h"
#include "train/ranks/meeting.h"

namespace accrue::train {
namespace {

constexpr int kInterrupted = 130;  ///< the command's exit code after a signal

std::chrono::milliseconds delay{0};  ///< of each micro-batch

std::unique_ptr<at::ObserverContext> wait_in_micro_batch(const at::RecordFunction& scope) {
  if (std::string_view(scope.name()) == "micro-batch") std::this_thread::sleep_for(delay);
  return nullptr;
}

int run(const std::vector<std::string>& words) {
  delay = std::chrono::milliseconds(std::stoi(words.at(1)));
  at::addGlobalCallback(
      at::RecordFunctionCallback(&wait_in_micro_batch).scopes({at::RecordScope::USER_SCOPE}));
  const bool resume = words.size() > 2, may_begin = resume && words[2] == "auto";
  return accrue::testing::exit_status_of([&] {
    const Config config = load_config(words[0], {});
    Trainer trainer(config, distributed::join(group_options(config)));
    const RunResult result = trainer.run({.resume = resume,
                                          .may_begin = may_begin,
                                          .checkpoint = resume && !may_begin ? words[2] : ""});
    return result.interrupted ? kInterrupted : 0;
  });
}

}  // namespace
}  // namespace accrue::train

int main(int count, char** words) {
  return count < 3 ? 127 : accrue::train::run({words + 1, words + count});
}
