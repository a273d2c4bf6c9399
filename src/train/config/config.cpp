#include "accrue/train/config.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "train/config/accumulation_order.h"
#include "train/config/alternatives.h"
#include "train/config/batch_checks.h"
#include "train/config/checks.h"
#include "train/config/key.h"
#include "train/config/names.h"
#include "train/config/origin_kind.h"
#include "train/config/toml/toml_reader.h"
#include "train/config/translations/unknown_key.h"

namespace accrue::train {
namespace {

std::string section_of(const std::string& name) { return name.substr(0, name.find('.')); }

std::string place(const Entry& entry) {
  return "config key " + entry.path + " (" + entry.position + ")";
}

/// Stores the value of `entry`; `all` are all statements.
void apply(const Entry& entry, const Statements& all, Config& config, StatedKeys& stated,
           ConfigOrigin kind) {
  const Key* key = find_key(entry.path);
  if (!key) {
    const bool empty_section = entry.value.as<Value::Other>() && is_section(entry.path);
    if (empty_section) return;
    throw unknown_key(entry, place(entry), all);
  }
  key->set({entry.value, entry.bare, place(entry), kind == ConfigOrigin::run}, config);
  stated[entry.path] = place(entry);
}

/// Sets what is not stated to the defaults for the kind of model.
void set_defaults_of_kind(Config& config, const StatedKeys& stated) {
  const auto set = [&](const char* key, std::int64_t& member, std::int64_t value) {
    if (!stated.contains(key)) member = value;
  };
  ModelConfig& model = config.model;
  if (model.kind == ModelKind::resnet) {
    set("model.layers", model.layers, model.stem == models::Stem::conv7x7 ? 18 : 20);
    set("model.width", model.width, model.stem_or_usual() == models::Stem::conv7x7 ? 64 : 16);
  } else if (model.kind == ModelKind::vit) {
    set("model.heads", model.heads, 4);
    set("model.width", model.width, 128);
  } else if (model.kind == ModelKind::bert && !stated.contains("loss.kind")) {
    config.loss.kind = models::LossKind::mlm;
  }
  if (!model.has_shape_of_folder()) model.context = model.context_or_default();
}

/// Earlier versions only had the networks for small images.
void take_earlier_stem(Config& config, const StatedKeys& stated) {
  if (!stated.contains("model.stem")) config.model.stem = models::Stem::conv3x3;
}

/// Resets model.context next to a folder: earlier versions stated every key, this one without
/// effect.
void forget_unread_context(Config& config, const StatedKeys& stated) {
  if (config.model.has_shape_of_folder() && stated.contains("model.layers"))
    config.model.context.reset();
}

std::vector<Entry> read_overrides(const std::vector<std::string>& overrides) {
  std::vector<Entry> entries;
  for (const std::string& text : overrides)
    for (Entry& entry : read_override(text)) entries.push_back(std::move(entry));
  return entries;
}

/// Whether the file is a run folder's own config, with the run.json next to it.
bool is_of_run(const std::filesystem::path& file) {
  std::error_code unreadable;
  return file.filename() == "config.toml" &&
         std::filesystem::exists(std::filesystem::path(file).replace_filename("run.json"),
                                 unreadable);
}

/// Leaves out the keys of a user's [model] that the kind of model on the command line does not
/// read: they are of the kind in the file. Keys on the command line and of other sections, which
/// say more than the shape of a model, stay and are refused.
void leave_out_keys_of_other_kinds(Statements& of_file, const std::vector<Entry>& overriding) {
  const auto kind = std::ranges::find(overriding, std::string("model.kind"), &Entry::path);
  if (kind == overriding.end()) return;
  Config of_kind;
  StatedKeys stated;
  apply(*kind, overriding, of_kind, stated, ConfigOrigin::user);
  if (of_kind.model.kind_is_auto) return;
  std::erase_if(of_file, [&](const Entry& entry) {
    const Key* const key = find_key(entry.path);
    return key != nullptr && section_of(key->name) == "model" &&
           std::ranges::any_of(key->read_by, [&](const Reader& reader) {
             return reader.decider == kind->path && !reader.holds(of_kind);
           });
  });
}

/// Whether the command line states the batch only by a schedule, which then replaces the batch in
/// the file.
bool states_batch_by_schedule(const std::vector<Entry>& overriding, const Config& config) {
  const auto states = [&](const std::string& key) {
    return std::ranges::find(overriding, key, &Entry::path) != overriding.end();
  };
  const std::vector<BatchStage>& stages = config.batch.schedule;
  return states("batch.schedule") && !stages.empty() && stages.front().at.value == 0 &&
         !states("batch.tokens") && !states("batch.samples") && !states("batch.micro_batches");
}

bool holds(const std::string& folder, const char* file) {
  std::error_code unreadable;
  return std::filesystem::exists(std::filesystem::path(folder) / file, unreadable);
}

}  // namespace

std::string image_in_words(const std::vector<std::int64_t>& image) {
  return std::to_string(image.at(0)) + " x " + std::to_string(image.at(1)) + " x " +
         std::to_string(image.at(2));
}

bool ModelConfig::has_shape_of_folder() const {
  if (from.empty() || kind == ModelKind::torchscript) return false;
  return is_language_model(kind) || holds(from, "config.toml") || holds(from, "state.json");
}

bool ModelConfig::has_shape_of_run() const {
  if (from.empty() || is_foreign(kind)) return false;
  return holds(from, "state.json") || (holds(from, "config.toml") && !holds(from, "config.json"));
}

Config parse_config(const std::string& toml, const std::string& origin,
                    const std::vector<std::string>& overrides, ConfigOrigin kind) {
  Config config;
  StatedKeys stated, answered_for;
  Statements of_file = read_toml(toml, origin);
  const std::vector<Entry> overriding = read_overrides(overrides);
  if (kind == ConfigOrigin::user) leave_out_keys_of_other_kinds(of_file, overriding);
  Statements all = of_file;
  all.insert(all.end(), overriding.begin(), overriding.end());
  for (const Entry& entry : of_file) apply(entry, all, config, stated, kind);
  if (kind == ConfigOrigin::user) answered_for = stated;

  for (const Entry& entry : overriding) {
    withdraw_alternatives(entry.path, config, stated);
    withdraw_alternatives(entry.path, config, answered_for);
  }
  for (const Entry& entry : overriding) {
    apply(entry, all, config, stated, ConfigOrigin::user);
    answered_for[entry.path] = place(entry);
  }
  if (states_batch_by_schedule(overriding, config)) {
    withdraw_alternatives("batch.tokens", config, stated);
    withdraw_alternatives("batch.tokens", config, answered_for);
  }
  if (config.model.kind_is_auto)
    config.model.kind = kind_of_origin(config.model.from).value_or(ModelKind::gpt2);
  if (kind == ConfigOrigin::run && config.model.kind == ModelKind::resnet)
    take_earlier_stem(config, stated);
  set_defaults_of_kind(config, stated);
  if (kind == ConfigOrigin::run) forget_unread_context(config, stated);
  take_batch_of_schedule(config, stated);
  config.model.shape_beside_run = shape_beside_run(config, answered_for);
  check_statements(config, answered_for);
  check_together(config, stated, origin);
  return config;
}

Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  std::error_code unreadable;  // read_file() reports it then
  if (std::filesystem::is_directory(file, unreadable))
    throw usage_error(
        "read config " + file.string(), "a TOML file", "a folder",
        std::filesystem::exists(file / "config.toml", unreadable)
            ? (file / "config.toml").string()
            : "accrue init " + file.string() + ", which writes a config for its data");
  return parse_config(read_file(file, ReadOrder::in_order), file.string(), overrides,
                      is_of_run(file) ? ConfigOrigin::run : ConfigOrigin::user);
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const Key& key : keys()) {
    const auto value = read_value(key, config);
    if (!value) continue;
    if (section_of(key.name) != section) {
      text += (section.empty() ? "[" : "\n[") + section_of(key.name) + "]\n";
      section = section_of(key.name);
    }
    text += key.name.substr(section.size() + 1) + " = " + to_toml(*value) + "\n";
  }
  return text;
}

std::vector<ConfigDifference> differences(const Config& before, const Config& after) {
  const auto printed = [](const std::optional<Value>& value) {
    return value ? to_toml(*value) : std::string("not stated");
  };
  std::vector<ConfigDifference> found;
  for (const Key& key : keys()) {
    const std::string old_text = printed(read_value(key, before)),
                      new_text = printed(read_value(key, after));
    if (old_text != new_text) found.push_back({key.name, old_text, new_text});
  }
  return found;
}

bool may_change_on_resume(const std::string& key) {
  const Key* known = find_key(key);
  return known && known->may_change_on_resume;
}

bool batch_may_change(const Config& config) {
  return !config.batch.changes_as_stated() && !config.adapt.is_on() && !layered_key(config);
}

}  // namespace accrue::train
