#pragma once

#include <cstdint>
#include <filesystem>

#include "accrue/train/config.h"

namespace accrue::train {

/// The pattern of data.train that is the standard input, and no file of that name.
inline constexpr const char* kStandardInput = "-";

bool reads_standard_input(const Config& config);

/// The folder with what a run read from its standard input: beside the run's, so that the run finds
/// it again when it is resumed.
std::filesystem::path input_folder_of(const Config& config);

/// `config` with a file in the place of the standard input in data.train, which is read to its end
/// and kept in input_folder_of(), as samples are drawn from all over it; memory is bounded. Where
/// run.out holds a run, what that run read is taken instead, and the standard input is not read.
/// With data.format = "auto", text that begins with a JSON object is JSON lines. A config without
/// standard input stays as it is. Throws a usage Error if the config names it twice or for
/// data.val, with several `ranks`, of which one would read what the others miss, with a format that
/// is no text, where it is a terminal, empty, or cannot be read.
Config with_standard_input(Config config, std::int64_t ranks = 1);

}  // namespace accrue::train
