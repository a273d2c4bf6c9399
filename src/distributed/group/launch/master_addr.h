#pragma once

#include <string_view>

namespace accrue::distributed {

/// Whether `text` is a host name or a numeric address (IPv6 without brackets), by its form.
bool is_host(std::string_view text);

/// Throws a usage Error if `text`, the value of MASTER_ADDR, is neither a host name nor a numeric
/// address (IPv6 without brackets). Nothing is looked up.
void check_master_addr(std::string_view text);

}  // namespace accrue::distributed
