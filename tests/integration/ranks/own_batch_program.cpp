// One rank of a run with a batch type of the program: `own_batch_program RUN_DIR STEPS MICRO`, with
// a launcher's variables. It prints its final parameters.
#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "accrue/distributed/group.h"
#include "train/bags.h"

int main(int count, char** words) {
  using namespace accrue::train::testing;
  if (count != 4) return 2;
  accrue::train::Config config;
  config.run.out = words[1];
  config.run.threads = 1;
  config.observe.progress = accrue::observe::ProgressStyle::off;
  config = with_bags(config, std::atoll(words[2]), std::atoll(words[3]));
  const auto group = accrue::distributed::join();
  Net net;
  accrue::distributed::run_together(group.get(), [&] {
    accrue::train::Trainer(config, net, summed_loss, all_bags(), nullptr, group).run();
  });
  std::cout << "parameters" << std::setprecision(17);
  for (const at::Tensor& parameter : net->parameters()) {
    const at::Tensor flat = parameter.detach().contiguous().view({-1});
    for (std::int64_t i = 0; i < flat.numel(); ++i) std::cout << ' ' << flat[i].item<double>();
  }
  std::cout << '\n';
}
