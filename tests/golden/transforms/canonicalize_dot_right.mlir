// RUN: pydisc opt %s --passes=canonicalize-dot | filecheck %s

"disc_shape.symbolic_dim"() {sym_name = "S0", min = 0 : i64} : () -> ()

// The free dims of the right operand are no neighbours, and its contracting dims are in another order.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<?x3x4xf32, [@S0, 3, 4]>, %[[W:.*]]: tensor<4x5x3x2xf32>)
// CHECK: %[[T:.*]] = stablehlo.transpose %[[W]], dims = [2, 0, 1, 3] : (tensor<4x5x3x2xf32>) -> tensor<3x4x5x2xf32>
// CHECK: stablehlo.dot_general %[[X]], %[[T]], contracting_dims = [1, 2] x [0, 1]
func.func @main(%x: tensor<?x3x4xf32, [@S0, 3, 4]>, %w: tensor<4x5x3x2xf32>) -> tensor<?x5x2xf32, [@S0, 5, 2]> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1, 2] x [2, 0] : (tensor<?x3x4xf32, [@S0, 3, 4]>, tensor<4x5x3x2xf32>) -> tensor<?x5x2xf32, [@S0, 5, 2]>
  return %0 : tensor<?x5x2xf32, [@S0, 5, 2]>
}
