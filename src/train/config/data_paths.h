#pragma once

#include <string>

#include "accrue/train/config.h"

namespace accrue::train {

/// Paths of data may change while the data stay: scratch of a node has another path in each job. A
/// run knows its data by content (data::Source::fingerprint), which is compared wherever these keys
/// may differ.

/// "run.steps = 9 (was 6)".
std::string in_words(const ConfigDifference& difference);
/// Whether the key states where files of data lie.
bool names_data_files(const std::string& key);
/// Whether the key differs between two configs in nothing but if files of data lie: the weights
/// of sources stay.
bool only_moves(const std::string& key, const Config& before, const Config& after);
/// `config` with its data where `from` has them.
Config with_data_paths_of(Config config, const Config& from);
/// "data.train = ["b.txt"] (was ["a.txt"])" for each that moved; empty: none did.
std::string moves_in_words(const Config& before, const Config& after);

}  // namespace accrue::train
