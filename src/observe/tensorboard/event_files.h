#pragma once

#include <filesystem>

/// A run's event files, events.out.tfevents.<time>.<host>.<process>, one for each attempt at it.
namespace accrue::observe {

/// The file of an attempt that begins now (Unix time), which is not there yet. Its name comes after
/// those that are there, whatever the clock says: TensorBoard reads files in the order of names.
std::filesystem::path new_event_file(const std::filesystem::path& folder, double now);

/// Removes a folder of event files, and keeps it where anything else is in it.
void remove_event_files(const std::filesystem::path& folder);

}  // namespace accrue::observe
