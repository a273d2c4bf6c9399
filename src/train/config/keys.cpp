#include <algorithm>

#include "accrue/core/error.h"
#include "train/config/key.h"
#include "train/config/sections/sections.h"

namespace accrue::train {
namespace {

std::vector<Key> all_keys() {
  std::vector<Key> table;
  for (auto section :
       {run_keys(), model_keys(), lora_keys(), data_keys(), batch_keys(), precision_keys(),
        memory_keys(), loss_keys(), optim_keys(), dist_keys(), adapt_keys(), observe_keys()})
    table.insert(table.end(), section.begin(), section.end());
  return table;
}

}  // namespace

const Reader* missing_reader(const Key& key, const Config& config) {
  const auto missing = std::find_if(key.read_by.begin(), key.read_by.end(),
                                    [&](const Reader& reader) { return !reader.holds(config); });
  return missing == key.read_by.end() ? nullptr : &*missing;
}

bool takes(const Key& key, const Value& value) {
  Config scratch;
  try {
    key.set({value, std::nullopt, key.name}, scratch);
    return true;
  } catch (const Error&) {
    return false;
  }
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = all_keys();
  return table;
}

const Key* find_key(const std::string& name) {
  const auto at =
      std::find_if(keys().begin(), keys().end(), [&](const Key& key) { return key.name == name; });
  return at == keys().end() ? nullptr : &*at;
}

}  // namespace accrue::train
