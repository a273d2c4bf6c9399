#include "distributed/group/launch/run_token.h"

#include <stdexcept>

#include "accrue/core/error.h"
#include "distributed/group/network/addresses.h"

namespace accrue::distributed {
namespace {

constexpr std::size_t kShortest = 16;

/// An unknown name is the actual mistake, not the missing token.
void expect_an_address(const Launch& launch) {
  try {
    addresses_of(launch.master_addr, 0);
  } catch (const std::runtime_error& error) {
    throw usage_error(
        "connect to the other ranks",
        launch.store.empty()
            ? "MASTER_ADDR to be the name or an address of the machine that runs rank 0"
            : "each member of ACCRUE_STORE to be the name or an address of a machine",
        error.what(), "the address by which all ranks reach that machine");
  }
}

}  // namespace

void check_run_token(std::string_view token) {
  if (token.size() >= kShortest) return;
  throw usage_error("read ACCRUE_RUN_TOKEN",
                    "a secret of at least " + std::to_string(kShortest) + " characters",
                    std::to_string(token.size()) + " characters", kMakeRunToken);
}

void require_run_token(const Launch& launch) {
  if (!launch.run_token.empty() || is_loopback(launch.master_addr)) return;
  expect_an_address(launch);
  throw usage_error("connect to the other ranks",
                    "ACCRUE_RUN_TOKEN, since other machines can reach the ranks' store",
                    (launch.store.empty() ? "MASTER_ADDR '" : "a member of ACCRUE_STORE, '") +
                        launch.master_addr + "', which is not the loopback interface, and no token",
                    kMakeRunToken);
}

}  // namespace accrue::distributed
