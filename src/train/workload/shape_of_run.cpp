#include "train/workload/shape_of_run.h"

#include <optional>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/config/key.h"
#include "train/workload/model_options.h"

namespace accrue::train {
namespace {

/// `config` with the widths that follow from others where it has none of its own.
Config with_usual_widths_stated(Config config) {
  ModelConfig& model = config.model;
  if (model.kind == ModelKind::llama) {
    const models::LlamaOptions shape = models::with_usual_widths(llama_options(config));
    model.kv_heads = shape.kv_heads;
    model.ffn_width = shape.ffn_width;
  } else if (model.kind == ModelKind::bert) {
    model.ffn_width = bert_options(config).inner_width();
  }
  return config;
}

std::string value_in(const Config& config, const std::string& name) {
  const std::optional<Value> value = find_key(name)->get(config);
  return value ? to_toml(*value) : "auto";
}

}  // namespace

void expect_shape_of_run(const Config& stated, const Config& of_run) {
  if (stated.model.shape_beside_run.empty()) return;
  const Config whole = with_usual_widths_stated(of_run);
  const std::string automatic = to_toml(Value{std::string("auto")});
  std::string operation;
  std::vector<std::string> names, expected, received;
  for (const auto& [name, place] : stated.model.shape_beside_run) {
    const std::string mine = value_in(stated, name), theirs = value_in(whole, name);
    if (mine == theirs || mine == automatic) continue;
    if (operation.empty()) operation = place;
    names.push_back(name);
    expected.push_back(name + " = " + theirs);
    received.push_back(name + " = " + mine);
  }
  if (names.empty()) return;
  throw usage_error(operation, listed(expected, "and") + ", as the run in model.from has it",
                    listed(received, "and"), "removing " + listed(names, "and"));
}

}  // namespace accrue::train
