#include "train/workload/first/chosen_config.h"

#include <filesystem>
#include <utility>

#include "accrue/train/run_directory.h"
#include "train/checkpoint/run_copies.h"
#include "train/config/key.h"
#include "train/config/toml/toml_reader.h"
#include "train/workload/first/overridden_page.h"
#include "train/workload/standard_input.h"

namespace accrue::train {
namespace {

/// The statements of `overrides` that are keys of this version; parse_config() refuses others.
Config stated_in(const std::vector<std::string>& overrides) {
  Config config;
  for (const std::string& text : overrides)
    for (const Entry& entry : read_override(text))
      if (const Key* key = find_key(entry.path))
        key->set(
            {entry.value, entry.bare, "config key " + entry.path + " (" + entry.position + ")"},
            config);
  return config;
}

}  // namespace

std::vector<std::string> with_kept_input(std::vector<std::string> overrides, std::int64_t ranks) {
  Config stated = stated_in(overrides);
  if (!reads_standard_input(stated)) return overrides;
  if (stated.run.out.empty()) stated.run.out = name_of_run(stated.data.train, stated.model.from);
  const Config kept = with_standard_input(std::move(stated), ranks);
  for (const char* name : {"run.out", "data.train"})
    overrides.push_back(std::string(name) + "=" + to_toml(*find_key(name)->get(kept)));
  return overrides;
}

ChosenConfig choose_config(const std::vector<std::string>& overrides, bool resume,
                           const MachineFacts& machine, const std::string& command,
                           const ShowProgress& show) {
  const Config stated = stated_in(overrides);
  const RunDirectory run(stated.run.out.empty() ? name_of_run(stated.data.train, stated.model.from)
                                                : stated.run.out);
  const RunCopies copies(run, stated.run.replica);
  if (resume && std::filesystem::exists(copies.record().config_file()))
    return {.page = {}, .config = load_config(copies.record().config_file(), overrides)};
  const DataFacts data = inspect_data({.train = stated.data.train,
                                       .val = stated.data.val,
                                       .model = stated.model.from,
                                       .tokenizer = stated.data.tokenizer,
                                       .format = stated.data.format,
                                       .operation = "data.train"},
                                      show);
  FirstConfigOptions wishes{.command = command};
  if (overrides_state(overrides, "lora.rank")) wishes.adapter = stated.model.lora.adapters.rank > 0;
  ChosenConfig chosen{.page = first_config(data, machine, wishes), .config = {}};
  chosen.config = parse_config(chosen.page, "the chosen config", overrides);
  chosen.page = overridden_page(chosen.page, overrides, chosen.config);
  return chosen;
}

}  // namespace accrue::train
