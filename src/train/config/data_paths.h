#pragma once

#include <string>

#include "accrue/train/config.h"

namespace accrue::train {

/// Paths of data may change while the data stay: a node's scratch directory has another path in
/// each job. A run identifies its data by content (data::Source::fingerprint), which is compared
/// wherever these keys may differ.

/// "run.steps = 9 (was 6)".
std::string in_words(const ConfigDifference& difference);
/// Whether the key states the paths of data files.
bool names_data_files(const std::string& key);
/// Whether the key differs between two configs only in the paths of data files: the weights of
/// sources stay.
bool only_moves(const std::string& key, const Config& before, const Config& after);
/// `config` with the data paths of `from`.
Config with_data_paths_of(Config config, const Config& from);
/// "data.train = ["b.txt"] (was ["a.txt"])" for each path that changed; empty if none did.
std::string moves_in_words(const Config& before, const Config& after);

}  // namespace accrue::train
