#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/long_operation.h"
#include "accrue/data/source.h"
#include "accrue/train/choices.h"

namespace accrue::train {

/// The files that a user names for training, and perhaps a base model, before a config exists.
struct FirstFiles {
  std::vector<std::string> train, val;      ///< files, folders or patterns
  std::string model;                        ///< as in model.from; empty: none
  std::string tokenizer = "auto";           ///< as in data.tokenizer
  std::optional<data::Format> format = {};  ///< as in data.format; none: what the files show
  std::string operation = "accrue init";    ///< for errors
};

/// Classifies `files`: a folder with a config.json is the model, and a file or folder named val,
/// valid, validation, dev or test is held out. Throws a usage Error if one does not exist, two are
/// models, or none is left to be trained on; `operation` is the command that takes them.
FirstFiles sort_out(const std::vector<std::string>& files,
                    const std::string& operation = FirstFiles().operation);

/// A model that training starts from.
struct ModelFacts {
  std::string from;  ///< as in model.from; empty: none
  ModelKind kind = ModelKind::gpt2;
  std::int64_t context = 0;  ///< the most tokens that a sample may have; 0: not known
  std::int64_t bytes = 0;    ///< size of its weight files
};

/// The contents of files for which there is no config yet.
struct DataFacts {
  data::Format format = data::Format::text;
  std::vector<std::string> train, val;  ///< for data.train and data.val
  /// The contents of a named folder that are neither trained on nor held out.
  std::vector<std::string> unread = {};
  std::vector<std::string> named = {};  ///< the paths named for training; empty: `train`
  ModelFacts model = {};
  std::string tokenizer = {};  ///< the file of the text's tokenizer; empty: bytes
  std::int64_t samples = 0;    ///< counted for lines and images
  std::int64_t tokens = 0;     ///< input tokens of all samples
  std::int64_t longest = 0;    ///< lines: the input tokens of the longest
  std::int64_t vocab = 0;      ///< 256 for bytes; more than the largest id; classes of images
  std::vector<std::string> classes = {};  ///< names of the classes of images
  bool has_ids = false;                   ///< tokens of a foreign tokenizer
  std::optional<data::ImageShape> image = std::nullopt;

  /// The folder of the run.
  std::string run_name() const;

  /// Whether each sample is a line of a file, or a row of a table.
  bool has_lines() const {
    return format == data::Format::jsonl || format == data::Format::chat ||
           format == data::Format::parquet;
  }
};

/// Inspects files: text, token files, JSON lines, conversations, images in folders or as idx and
/// CIFAR files. Folders are taken with all in them, or by their parts (parts_of_folder()). Reads
/// token files and lines once; text, where the model or the user brings a tokenizer, which makes
/// tokens of it beside the run that name_of_run() names. Throws a usage Error if formats are
/// mixed, a file is refused as data::open_source refuses it, or the model is none.
DataFacts inspect_data(const FirstFiles& files, const ShowProgress& show = {});

/// The folder of the first run on these files: "runs/tale", from a model "runs/SmolLM2-135M-tale".
/// Several files give it the name of the folder that holds them all, or of the first one if only
/// the working directory does.
std::string name_of_run(const std::vector<std::string>& train, const std::string& model);

}  // namespace accrue::train
