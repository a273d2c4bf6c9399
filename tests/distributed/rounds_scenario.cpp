#include "rounds_scenario.h"

#include <ATen/ATen.h>

#include <iostream>
#include <map>

#include "distributed/outer_problem.h"
#include "distributed/schedule/outer_rounds.h"

namespace accrue::distributed {

void take_rounds(const Launch& launch, const Words& words) {
  const std::map<std::string, Compression> compressions{{"none", Compression::none},
                                                        {"int8", Compression::int8}};
  const std::shared_ptr<Group> group = connect(launch, {.timeout = std::chrono::seconds(60)});
  const NamedParameters parameters = testing::outer_parameters();
  const std::int64_t steps = std::stoll(words.at(1));
  OuterRounds rounds(group, parameters,
                     {.outer = {.local_steps = std::stoll(words.at(0)),
                                .lr = std::stod(words.at(2)),
                                .momentum = std::stod(words.at(3)),
                                .parts = std::stoll(words.at(4)),
                                .delay = std::stoll(words.at(5))},
                      .compress = compressions.at(words.at(6))});
  for (std::int64_t step = 1; step <= steps; ++step) {
    rounds.go_on();
    testing::move(parameters, group->rank(), step);
    rounds.after_step({.steps = step, .weight = testing::weight_of(group->rank(), step)},
                      step == steps);
  }
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : parameters) all.push_back(tensor);
  std::cout.precision(9);
  print("parameters", at::cat(all));
}

}  // namespace accrue::distributed
