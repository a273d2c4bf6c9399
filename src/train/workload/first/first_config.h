#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::train {

/// What files that nobody has written a config for hold.
struct DataFacts {
  data::Format format = data::Format::text;
  bool states_format = false;           ///< data.format = "auto" would not find the format
  std::vector<std::string> train, val;  ///< as data.train and data.val are to have them
  std::filesystem::path model;          ///< a model folder among them; empty: none
  std::int64_t model_context = 0;       ///< as its config.json says; 0: it does not say
  std::int64_t samples = 0;             ///< counted for JSON lines and images
  std::int64_t tokens = 0;              ///< input tokens of all samples
  std::int64_t longest = 0;             ///< JSON lines: the input tokens of the longest
  std::int64_t vocab = 0;  ///< 256 for bytes; more than the largest id; classes of images
  bool has_ids = false;    ///< tokens of somebody's tokenizer
  std::optional<data::ImageShape> image = std::nullopt;
};

/// Looks at `files`: text, token files, JSON lines, images in folders or as idx and CIFAR files,
/// and at most one model folder (with a config.json). A file named as val, valid, validation, dev
/// or test is held out. Folders are taken with all in them. Reads token files and JSON lines once.
/// Throws a usage Error where there is nothing to train on, formats are mixed, or a file is refused
/// as data::open_source refuses it.
DataFacts look_at(const std::vector<std::string>& files);

/// What the machine tells.
struct MachineFacts {
  bool multiplies_bf16 = false;  ///< it has instructions for that
};

/// A config that trains these data: TOML with the reason and the unit of each choice beside it, as
/// load_config reads it. Model, batch and length are modest: minutes to a few hours of one machine.
/// It is pure. `command` is how the config came to be, for its first line. Throws a usage Error
/// where there is too little data.
std::string first_config(const DataFacts& data, const MachineFacts& machine,
                         const std::string& command);

}  // namespace accrue::train
