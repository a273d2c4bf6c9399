// Simulates a run of many ranks, once with faults and once without, and prints the results as JSON:
// `simulate_ranks '{"machines": 1000, "lifetime": 3600, ...}'`.

#include <iostream>
#include <nlohmann/json.hpp>

#include "simulation/simulated_run.h"

namespace accrue::simulation {
namespace {

using nlohmann::json;

/// Reads the given values into a Setting; an unknown key is an error.
Setting setting_of(json stated) {
  Setting setting;
  const auto take = [&stated](const char* name, auto& value) {
    const auto at = stated.find(name);
    if (at == stated.end()) return;
    at->get_to(value);
    stated.erase(at);
  };
  take("machines", setting.machines);
  take("least", setting.least);
  take("micro_batches", setting.micro_batches);
  take("micro_batch_seconds", setting.micro_batch_seconds);
  take("spread", setting.spread);
  take("noise", setting.noise);
  take("follows_speed", setting.follows_speed);
  take("knows_speeds", setting.knows_speeds);
  take("keeps_windows", setting.keeps_windows);
  take("has_lifelines", setting.has_lifelines);
  take("timeout", setting.timeout);
  take("state_tensors", setting.state_tensors);
  take("checkpoint_every", setting.checkpoint_every);
  take("lifetime", setting.fates.lifetime);
  take("kill_every", setting.fates.kill_every);
  take("freezes_after", setting.fates.freezes_after);
  take("frozen_for", setting.fates.frozen_for);
  take("away", setting.fates.away);
  take("start", setting.fates.start);
  take("close", setting.costs.close);
  take("notice", setting.costs.notice);
  take("meet", setting.costs.meet);
  take("newcomer", setting.costs.newcomer);
  take("store_rate", setting.costs.store_rate);
  take("length", setting.length);
  take("seed", setting.seed);
  if (!stated.empty())
    throw std::invalid_argument("nothing is called '" + stated.begin().key() + "'");
  return setting;
}

json calls_of(const Outcome& outcome) {
  json calls;
  for (const auto& [name, times] : outcome.calls)
    calls[name] = {{"calls", times.calls},
                   {"mean_us", 1e6 * times.seconds / static_cast<double>(times.calls)},
                   {"longest_us", 1e6 * times.longest}};
  return calls;
}

json outcome_of(const Setting& setting) {
  Setting undisturbed = setting;
  undisturbed.fates = {};
  const double best = simulate(undisturbed).goodput();
  const Outcome outcome = simulate(setting);
  double least = 1;
  for (const double quarter : outcome.of_quarters) least = std::min(least, quarter / best);
  return {{"steps", outcome.steps},         {"seconds", outcome.length},
          {"deaths", outcome.deaths},       {"changes", outcome.changes},
          {"joined", outcome.joined},       {"done_again", outcome.done_again},
          {"waited", outcome.waited},       {"from_replicas", outcome.from_replicas},
          {"went_back", outcome.went_back}, {"goodput", outcome.goodput() / best},
          {"least_in_15_s", least},         {"broken", outcome.broken},
          {"calls", calls_of(outcome)}};
}

}  // namespace
}  // namespace accrue::simulation

int main(int count, char** words) {
  try {
    const auto stated = nlohmann::json::parse(count == 2 ? words[1] : "");
    std::cout << accrue::simulation::outcome_of(accrue::simulation::setting_of(stated)).dump(1)
              << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "error: simulate_ranks: expected one JSON object that states a setting, received "
              << error.what() << "; try '{\"machines\": 100, \"lifetime\": 3600}'\n";
    return 2;
  }
}
