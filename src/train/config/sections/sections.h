#pragma once

#include <vector>

#include "train/config/key.h"

/// The rows of the table of keys, by section of the config.
namespace accrue::train {

std::vector<Key> run_keys();
std::vector<Key> model_keys();
std::vector<Key> lora_keys();
std::vector<Key> data_keys();
std::vector<Key> batch_keys();
std::vector<Key> precision_keys();
std::vector<Key> memory_keys();
std::vector<Key> loss_keys();
std::vector<Key> optim_keys();
std::vector<Key> dist_keys();
std::vector<Key> adapt_keys();
std::vector<Key> observe_keys();

}  // namespace accrue::train
